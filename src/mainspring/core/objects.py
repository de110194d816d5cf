"""Where the objects of a job are: everything that is too large, or too many, for a row. Pure.

A job's objects share one prefix that follows from its id alone, `jobs/<day>/<id>/`, the day being that of the id: so retention
looks at whole days, and nothing has to remember who has objects. Below it:

    logs/<attempt>/<number>          pieces of what an attempt wrote, in order
    partial/<attempt>/<number>       pieces of what an attempt gave out while it ran
    outputs/<attempt>/<name>         files, and a result that is too large for its row ("result")
    checkpoints/<attempt>            what the next attempt goes on from; replaces those of earlier attempts
    steps/<attempt>/<name>           what a named step returned

What an attempt writes carries its number, so an attempt that should not be there any more spoils nothing of a later one.
"""

import re
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from msgspec import Struct

from mainspring.core.options import check_name
from mainspring.core.partition import format_id
from mainspring.errors import InvalidError

JOBS = "jobs/"
CHECKPOINTS = "checkpoints/"
LOGS = "logs/"
PARTIAL = "partial/"
STEPS = "steps/"
RESULT = "result"  # the output that is the job's result
MAX_OBJECT = 32 * 1_073_741_824  # bytes: S3 takes 10,000 parts
INLINE_RESULT_BYTES = 65_536  # what is larger becomes an object
MAX_OUTPUTS = 1000  # beside the result

_MAX_ESCAPED = 240  # a part of a path is a file's name, and those end at 255 bytes
_PART = r"[A-Za-z0-9_~%-]{1,240}"
_PLACE = re.compile(
    rf"(?:logs|partial)/\d{{6,10}}/\d{{10,12}}|(?:outputs|steps)/\d{{6,10}}/{_PART}|checkpoints/\d{{6,10}}"
)
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_MEDIA = re.compile(r"[\w.+-]{1,127}/[\w.+-]{1,127}(; ?[\w-]{1,20}=[\w.+-]{1,60})?", re.ASCII)
_PREFIX = re.compile(r"(?:logs|partial|checkpoints|outputs|steps)/[A-Za-z0-9_~%/-]{0,260}")


class Found(Struct, frozen=True):
    """An object in a list. `name`: below its job's prefix."""

    name: str
    size: int


def prefix_of(job: bytes) -> str:
    """Of all objects of a job; ends with a '/'."""
    return f"{day_prefix(job)}{format_id(job)}/"


def day_prefix(job: bytes) -> str:
    made_at = datetime.fromtimestamp(int.from_bytes(job[:6]) / 1000, UTC)
    return f"{JOBS}{made_at:%Y-%m-%d}/"


def logs(attempt: int, number: int | None = None) -> str:
    return _numbered("logs", attempt, number)


def partial(attempt: int, number: int | None = None) -> str:
    return _numbered("partial", attempt, number)


def checkpoint(attempt: int) -> str:
    return f"{CHECKPOINTS}{attempt:06}"


def output(attempt: int, name: str) -> str:
    return f"outputs/{attempt:06}/{_escaped('name', name)}"


def step(attempt: int, name: str) -> str:
    return f"{STEPS}{attempt:06}/{_escaped('name', name)}"


def name_of(place: str) -> str:
    """The name that `output` or `step` was given."""
    return unquote(place.rpartition("/")[2])


def attempt_of(place: str) -> int:
    """The attempt that wrote it."""
    return int(place.split("/")[1])


def is_first(place: str) -> bool:
    """The first piece of an attempt, or no piece."""
    return not place.startswith((LOGS, PARTIAL)) or int(place.rpartition("/")[2]) == 1


def check_place(name: str, writer: int | None = None) -> str:
    """The name of an object in one of the rooms above. `writer`: the attempt that writes it, which leaves those of others alone."""
    found = _PLACE.fullmatch(name)
    if found is None:
        raise InvalidError("name", f"{name!a} is no name of a job's object")
    if writer is not None and attempt_of(name) != writer:
        raise InvalidError("name", f"{name!a} belongs to attempt {attempt_of(name)}; this is attempt {writer}")
    return name


def check_prefix(prefix: str) -> str:
    """What the names of objects begin with: a room, and more of it or nothing."""
    if _PREFIX.fullmatch(prefix) is None:
        raise InvalidError("prefix", f"{prefix!a} is no beginning of a name of a job's objects, such as outputs/")
    return prefix


def check_media(media: object) -> str:
    """A media type that can stand in a header."""
    if not isinstance(media, str) or _MEDIA.fullmatch(media) is None:
        raise InvalidError("media", f"{media!r} is no media type such as text/csv")
    return media


def check_checksum(text: str) -> str:
    if _CHECKSUM.fullmatch(text) is None:
        raise InvalidError("sha256", f"{text[:80]!a} is not 64 hexadecimal digits")
    return text


def _numbered(room: str, attempt: int, number: int | None) -> str:
    """With a number a piece, without one the prefix of all of them. Their names sort as they were written."""
    return f"{room}/{attempt:06}/" + ("" if number is None else f"{number:010}")


def _escaped(field: str, name: str) -> str:
    """One part of a path: no '/' and no '..' in it."""
    escaped = quote(check_name(field, name), safe="").replace(".", "%2E")
    if len(escaped) > _MAX_ESCAPED:
        raise InvalidError(
            field, f"{name[:40]!r}… is too long: as a part of a URL it has more than {_MAX_ESCAPED} characters"
        )
    return escaped
