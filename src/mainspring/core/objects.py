"""Where the objects of a job are: everything that is too large, or too many, for a row. Pure.

A job's objects share one prefix that follows from its id alone, `jobs/<day>/<id>/`, the day being that of the id: so retention
looks at whole days, and nothing has to remember who has objects. Below it:

    logs/<attempt>/<number>          pieces of what an attempt wrote, in order
    partial/<attempt>/<number>       pieces of what an attempt gave out while it ran
    outputs/<attempt>/<name>         files, and a result that is too large for its row ("result")
    checkpoints/<attempt>/<number>   what an attempt would go on from
    steps/<name>                     what a named step returned, in whichever attempt

What an attempt writes carries its number, so an attempt that should not be there any more spoils nothing of a later one.
"""

from datetime import UTC, datetime
from urllib.parse import quote, unquote

from msgspec import Struct

from mainspring.core.options import check_name
from mainspring.core.partition import format_id

JOBS = "jobs/"
RESULT = "result"  # the output that is the job's result
INLINE_RESULT_BYTES = 65_536  # what is larger becomes an object
MAX_OUTPUTS = 1000


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


def checkpoints(attempt: int | None = None, number: int | None = None) -> str:
    return "checkpoints/" if attempt is None else _numbered("checkpoints", attempt, number)


def output(attempt: int, name: str) -> str:
    return f"outputs/{attempt:06}/{_escaped('name', name)}"


def step(name: str) -> str:
    return f"steps/{_escaped('name', name)}"


def output_of(place: str) -> str:
    """The name that `output` was given."""
    return unquote(place.rpartition("/")[2])


def _numbered(room: str, attempt: int, number: int | None) -> str:
    """With a number a piece, without one the prefix of all of them. Their names sort as they were written."""
    return f"{room}/{attempt:06}/" + ("" if number is None else f"{number:010}")


def _escaped(field: str, name: str) -> str:
    """One part of a path: no '/' and no '..' in it."""
    return quote(check_name(field, name), safe="").replace(".", "%2E")
