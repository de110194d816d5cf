"""Secrets taken out of what others may read: logs, failures, progress.

`Mask` knows the values that an attempt was given, and replaces each by `***` wherever it stands: as it is, in base64 (either
alphabet, whatever stood before it), percent-encoded or as a form, and escaped as JSON or Python writes texts; also without the
space around it. A value of several lines is also found line by line, because that is how logs come; then not in base64, and only
its longest lines. What is shorter than `MIN_SECRET` characters cannot be a secret: masking it would tear every text apart. Without
secrets nothing is looked at, and the same object comes back. Making a mask of long values takes some hundredths of a second, so
that an attempt has its own made before it begins, outside of the worker's event loop (`prepare_mask`).
"""

import asyncio
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from mainspring.core.secret import MIN_SECRET

HIDDEN: Final = b"***"

_Bytes = bytes  # whose name is a method's below
_WIDEST: Final = 6  # bytes for a byte of a secret that is written as \\uXXXX
_LONG: Final = 100  # characters
_MOST_COMPILED: Final = 16_384  # bytes of a pattern: some 30 ms
_QUICKLY: Final = 128  # characters of all values: mostly a millisecond, which a thread is not worth
_MIN_LINE: Final = 8  # characters
_MOST_LINES: Final = 256
_UNRESERVED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_PERCENT: Final = [chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02X}" for byte in range(256)]
_PERCENT_LOWER: Final = [each.lower() if len(each) == 3 else each for each in _PERCENT]
_NAMED: Final = {
    **{"\n": rb"\n", "\r": rb"\r", "\t": rb"\t", "\b": rb"\b", "\f": rb"\f"},
    **{char: b"\\" + char.encode() for char in "\"'\\/"},
}


class Mask:
    """What hides these values. `longest`: bytes that one takes at most, however it is written."""

    __slots__ = ("_literals", "_pattern", "longest")

    def __init__(self, values: Iterable[str]) -> None:
        given = sorted({form for value in values for form in _bare(value)}, key=len)
        self.longest = max((_WIDEST * len(value.encode(errors="surrogatepass")) for value in given), default=0)
        pattern, literals = _Pattern(), {form for value in given for form in _base64(value)}
        for text in (*given, *_lines(given)):
            if len(text) > _LONG or not pattern.takes(_spelling(text)):
                literals.update(_written(text))
        by_length = sorted(literals, key=len)
        self._literals = tuple(literal for literal in by_length if not pattern.takes(re.escape(literal)))
        self._pattern = pattern.compiled()

    def bytes(self, data: _Bytes) -> _Bytes:
        spans = sorted(self._found(data))
        if not spans:
            return data
        kept, at = [], 0
        for start, end in spans:
            if start >= at:
                kept += [data[at:start], HIDDEN]
            at = max(at, end)
        return b"".join([*kept, data[at:]])

    def tail(self, data: _Bytes, size: int) -> _Bytes:
        """The last `size` bytes, masked, of something whose last `size` + `longest` bytes these are, or all of it. Of a secret
        that was cut by that nothing is left: what is masked is never longer than before."""
        masked = self.bytes(data)
        return masked[self.longest :] if len(data) >= size + self.longest else masked[-size:]

    def text(self, text: str) -> str:
        if self is NO_MASK:
            return text
        return self.bytes(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def _found(self, data: _Bytes) -> Iterator[tuple[int, int]]:
        """Whatever is found goes, also where it overlaps with another."""
        if self._pattern is not None:
            yield from (found.span() for found in self._pattern.finditer(data))
        for literal in self._literals:
            at = data.find(literal)
            while at >= 0:
                yield at, at + len(literal)
                at = data.find(literal, at + len(literal))


def mask_for(secrets: Mapping[str, str]) -> Mask:
    """The mask of an attempt; attempts with the same secrets share one."""
    return _made(tuple(sorted(set(secrets.values())))) if secrets else NO_MASK


async def prepare_mask(secrets: Mapping[str, str]) -> None:
    """So that `mask_for` has it at hand: an event loop does not wait until one of long values is made."""
    if sum(map(len, secrets.values())) > _QUICKLY:
        await asyncio.to_thread(mask_for, secrets)


@lru_cache(maxsize=64)
def _made(values: tuple[str, ...]) -> Mask:
    return Mask(values)


class _Pattern:
    """All forms that can be looked for at once: that is fastest, and takes long to compile."""

    def __init__(self) -> None:
        self._forms: set[bytes] = set()
        self._left = _MOST_COMPILED

    def takes(self, form: bytes) -> bool:
        """False: it does not fit in any more."""
        if len(form) > self._left:
            return False
        self._left -= len(form)
        self._forms.add(form)
        return True

    def compiled(self) -> re.Pattern[bytes] | None:
        """Those that begin with the same character are tried together, so that many lines cost little."""
        groups: dict[bytes, list[bytes]] = {}
        for form in sorted(self._forms, key=len, reverse=True):  # a secret that holds another goes as a whole
            first = form[:1] if form[:1].isalnum() else b""
            groups.setdefault(first, []).append(form[len(first) :])
        together = b"|".join(first + b"(?:" + b"|".join(rests) + b")" for first, rests in groups.items())
        return re.compile(together) if groups else None


def _bare(value: str) -> Iterator[str]:
    """Also without the space around it, such as the line break at the end of a file."""
    yield value
    if len(bare := value.strip()) >= MIN_SECRET:
        yield bare


def _lines(values: Iterable[str]) -> list[str]:
    """Of values that have several: the longest, shortest first."""
    split = (value.splitlines() for value in values)
    lines = {line.strip() for lines in split if len(lines) > 1 for line in lines}
    return sorted((line for line in lines if len(line) >= _MIN_LINE), key=len)[-_MOST_LINES:]


def _base64(value: str) -> Iterator[bytes]:
    data = value.encode(errors="surrogatepass")
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(data)
        yield from (whole, whole.rstrip(b"="))
        for before in range(3):
            yield _inside(encode(bytes(before) + data), before, len(data))


def _spelling(value: str) -> bytes:
    """A pattern of a value as text, character by character, so that writers who escape more or less than others are no matter."""
    return b"".join(_character(char) for char in value)


def _written(value: str) -> Iterator[bytes]:
    """The common ways to write a value as text."""
    data = value.encode(errors="surrogatepass")
    upper, lower = ("".join([table[byte] for byte in data]) for table in (_PERCENT, _PERCENT_LOWER))
    yield data
    for text in (upper, lower, upper.replace("%2F", "/"), upper.replace("%20", "+")):
        yield text.encode()
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value)):
        yield text[1:-1].encode(errors="surrogatepass")


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


NO_MASK: Final = Mask(())
