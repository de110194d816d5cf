"""Secrets taken out of what others may read: logs, failures, progress.

`Mask` knows the values that an attempt was given, and replaces each by `***` wherever it stands: as it is, in base64 (either
alphabet, whatever stood before it), percent-encoded or as a form, and escaped as JSON or Python writes texts. A value of several
lines is also found line by line, because that is how logs come. What is shorter than `MIN_SECRET` characters cannot be a secret:
masking it would tear every text apart. Without secrets nothing is looked at, and the same object comes back.
"""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from mainspring.core.secret import MIN_SECRET

HIDDEN: Final = b"***"

_Bytes = bytes  # whose name is a method's below
_LONG_LINE = 65_536
_WIDEST = 12  # bytes that one character becomes, at most
_UNRESERVED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_NAMED: Final = {
    **{"\n": rb"\n", "\r": rb"\r", "\t": rb"\t", "\b": rb"\b", "\f": rb"\f"},
    **{char: b"\\" + char.encode() for char in "\"'\\/"},
}


class Mask:
    """What hides these values."""

    __slots__ = ("_pattern", "longest")

    def __init__(self, values: Iterable[str]) -> None:
        parts = {part for value in values for part in _parts(value)}
        self.longest = max(map(len, parts), default=0) * _WIDEST  # bytes that it may look for at once
        forms = {form for part in parts for form in _forms(part)}
        ordered = sorted(forms, key=len, reverse=True)  # a secret that holds another goes as a whole
        self._pattern = re.compile(b"|".join(ordered)) if ordered else None

    def bytes(self, data: _Bytes) -> _Bytes:
        return data if self._pattern is None else self._pattern.sub(HIDDEN, data)

    def text(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self.bytes(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def __bool__(self) -> bool:
        """Is there anything to hide?"""
        return self._pattern is not None


class MaskedStream:
    """What comes in pieces, hidden also where a value lies across two of them.

    Complete lines come back at once; the beginning of a line waits for the rest, unless it becomes very long.
    """

    __slots__ = ("_held", "_mask")

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be given out by now."""
        if not self._mask:
            return piece
        held = self._held + piece
        end = held.rfind(b"\n") + 1
        if not end and len(held) > 2 * self._mask.longest + _LONG_LINE:
            held = self._mask.bytes(held)
            end = max(0, len(held) - self._mask.longest)
        self._held = held[end:]
        return self._mask.bytes(held[:end])

    def end(self) -> bytes:
        """The rest."""
        rest, self._held = self._held, b""
        return self._mask.bytes(rest)


NO_MASK: Final = Mask(())


def mask_for(secrets: Mapping[str, str]) -> Mask:
    """The mask of an attempt; attempts with the same secrets share one."""
    return _made(tuple(sorted(set(secrets.values())))) if secrets else NO_MASK


@lru_cache(maxsize=64)
def _made(values: tuple[str, ...]) -> Mask:
    return Mask(values)


def _parts(value: str) -> Iterator[str]:
    """The value, and where it has several lines, each of them that is long enough."""
    yield value
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in map(str.strip, lines) if len(line) >= MIN_SECRET)


def _forms(value: str) -> Iterator[bytes]:
    """Patterns of one value. All but base64 are found character by character, so that writers who escape more or less than others
    are no matter."""
    yield b"".join(_character(char) for char in value)
    data = value.encode(errors="surrogatepass")
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(data)
        yield from (re.escape(whole), re.escape(whole.rstrip(b"=")))
        for before in range(3):
            yield re.escape(_inside(encode(bytes(before) + data), before, len(data)))


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
