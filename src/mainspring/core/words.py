"""Times, durations, needs and stored text as people read them.

Used by everything that prints for people; machines get ISO 8601 and JSON from `documents` instead. Guarantees: whatever a job
left in the store, what is printed cannot move the cursor, change colours or break out of its line.
"""

from collections.abc import Iterable
from datetime import datetime

from mainspring.core.job import Resources
from mainspring.core.timer import SECOND, Micros, from_micros

_STEPS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def clean(text: str, *, one_line: bool = False) -> str:
    """The text with everything a terminal might obey spelled out; newlines and tabs stay unless it must be one line."""
    allowed = "" if one_line else "\n\t"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in allowed else _spelled(c, one_line) for c in text)


def _spelled(character: str, one_line: bool) -> str:
    if one_line and character in "\r\n\t":
        return " "
    return character.encode("unicode_escape").decode()


def clean_json(text: str) -> str:
    """The same for JSON on one line, which stays the JSON that it is."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def shortened(text: str, most: int = 60) -> str:
    """One line of at most `most` characters."""
    line = clean(text, one_line=True)
    return line if len(line) <= most else line[: most - 1] + "…"


def duration(seconds: float) -> str:
    """Two units at most: 12 ms, 3.4 s, 2 m 5 s, 4 d 2 h."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 or seconds == 0 else "under 1 ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    left, parts = round(seconds), []
    for unit, size in _STEPS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts)


def size(count: int) -> str:
    """12 bytes, 3.4 kB, 5.0 MB."""
    for unit, factor in (("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def moment(at: Micros) -> str:
    return stamp(from_micros(at))


def stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def relative(at: Micros, now: Micros) -> str:
    """`in 5 m`, `3 s ago`."""
    apart_s = (at - now) / SECOND
    if abs(apart_s) < 0.5:
        return "now"
    return f"in {duration(apart_s)}" if apart_s > 0 else f"{duration(-apart_s)} ago"


def moment_and_relative(at: Micros, now: Micros) -> str:
    return f"{moment(at)} ({relative(at, now)})"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 job`, `2,345 jobs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Iterable[str], most: int = 10) -> str:
    """`a, b, c and 4 more`."""
    known = list(names)
    shown = ", ".join(clean(name, one_line=True) for name in known[:most])
    return shown if len(known) <= most else f"{shown} and {len(known) - most} more"


def needs(resources: Resources) -> str:
    """`2 CPU cores, 4096 MB`; empty where nothing is needed."""
    parts = []
    if resources.cpu:
        parts.append(f"{resources.cpu:g} CPU cores")
    if resources.memory_mb:
        parts.append(f"{resources.memory_mb} MB of memory")
    if resources.gpu:
        parts.append(f"{resources.gpu} GPUs")
    return ", ".join(parts)
