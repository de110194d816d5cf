"""Secrets taken out of what others may read: logs, failures, progress.

`Mask` knows the values that an attempt was given, and replaces each by `***` wherever it stands: as it is, in base64 (either
alphabet, whatever stood before it), percent-encoded or as a form, and escaped as JSON or Python writes texts. A value of several
lines is also found line by line, because that is how logs come; then not in base64. What is shorter than `MIN_SECRET` characters
cannot be a secret: masking it would tear every text apart. Without secrets nothing is looked at, and the same object comes back.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from mainspring.core.secret import MIN_SECRET

HIDDEN: Final = b"***"

_Bytes = bytes  # whose name is a method's below
_WIDEST: Final = 6  # bytes for a byte of a secret that is written as \\uXXXX
_LONG: Final = 500  # characters
_UNRESERVED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_NAMED: Final = {
    **{"\n": rb"\n", "\r": rb"\r", "\t": rb"\t", "\b": rb"\b", "\f": rb"\f"},
    **{char: b"\\" + char.encode() for char in "\"'\\/"},
}


class Mask:
    """What hides these values. `longest`: bytes that one takes at most, however it is written."""

    __slots__ = ("_pattern", "longest")

    def __init__(self, values: Iterable[str]) -> None:
        given = list(values)
        self.longest = max((_WIDEST * len(value.encode(errors="surrogatepass")) for value in given), default=0)
        forms = {form for value in given for form in _forms(value)}
        self._pattern = re.compile(_any_of(forms)) if forms else None

    def bytes(self, data: _Bytes) -> _Bytes:
        return data if self._pattern is None else self._pattern.sub(HIDDEN, data)

    def tail(self, data: _Bytes, size: int) -> _Bytes:
        """The last `size` bytes, masked, of something whose last `size` + `longest` bytes these are, or all of it. Of a secret
        that was cut by that nothing is left: what is masked is never longer than before."""
        masked = self.bytes(data)
        return masked[self.longest :] if len(data) >= size + self.longest else masked[-size:]

    def text(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self.bytes(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")


NO_MASK: Final = Mask(())


def mask_for(secrets: Mapping[str, str]) -> Mask:
    """The mask of an attempt; attempts with the same secrets share one."""
    return _made(tuple(sorted(set(secrets.values())))) if secrets else NO_MASK


@lru_cache(maxsize=64)
def _made(values: tuple[str, ...]) -> Mask:
    return Mask(values)


def _any_of(forms: set[bytes]) -> bytes:
    """One pattern. Those that begin with the same character are tried together, so that many lines cost little."""
    groups: dict[bytes, list[bytes]] = {}
    for form in sorted(forms, key=len, reverse=True):  # a secret that holds another goes as a whole
        first = form[:1] if form[:1].isalnum() else b""
        groups.setdefault(first, []).append(form[len(first) :])
    return b"|".join(first + b"(?:" + b"|".join(rests) + b")" for first, rests in groups.items())


def _forms(value: str) -> Iterator[bytes]:
    """Patterns of one value."""
    yield from _written(value)
    data = value.encode(errors="surrogatepass")
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(data)
        yield from (re.escape(whole), re.escape(whole.rstrip(b"=")))
        for before in range(3):
            yield re.escape(_inside(encode(bytes(before) + data), before, len(data)))
    lines = value.splitlines()
    if len(lines) > 1:
        for line in map(str.strip, lines):
            yield from _written(line) if len(line) >= MIN_SECRET else ()


def _written(value: str) -> Iterator[bytes]:
    """As text. Character by character, so that writers who escape more or less than others are no matter; of a long one the
    common ways to write it, because that many choices take long to compile."""
    if len(value) <= _LONG:
        yield b"".join(_character(char) for char in value)
        return
    escaped = quote(value, safe="", errors="surrogatepass")
    lower = re.sub("%..", lambda found: found[0].lower(), escaped)
    shown = (value, escaped, lower, quote(value, errors="surrogatepass"), escaped.replace("%20", "+"))
    quoted = (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value))
    for text in (*shown, *(text[1:-1] for text in quoted)):
        yield re.escape(text.encode(errors="surrogatepass"))


def _inside(encoded: bytes, before: int, size: int) -> bytes:
    """The characters that follow from the value alone, whatever stands before and behind it."""
    return encoded[-(-before * 8 // 6) : (before + size) * 8 // 6]


def _character(char: str) -> bytes:
    """What one character of a value may look like."""
    data = char.encode(errors="surrogatepass")
    looks = [re.escape(data)]
    if char not in _UNRESERVED:
        units = char.encode("utf-16-be", errors="surrogatepass")
        looks.append(b"".join(_hex("%", byte, 2) for byte in data))
        looks.append(b"".join(_hex("\\u", units[at] << 8 | units[at + 1], 4) for at in range(0, len(units), 2)))
        looks.append(_hex("\\x", ord(char), 2) if ord(char) < 256 else _hex("\\U", ord(char), 8))
    looks += [rb"\+"] if char == " " else []
    looks += [re.escape(_NAMED[char])] if char in _NAMED else []
    looks.reverse()  # a backslash that escapes goes with what it escapes
    return looks[0] if len(looks) == 1 else b"(?:" + b"|".join(looks) + b")"


def _hex(before: str, number: int, digits: int) -> bytes:
    """In upper and lower case."""
    either = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{number:0{digits}x}")
    return (re.escape(before) + either).encode()
