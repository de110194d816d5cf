"""What people type, read strictly: JSON arguments as text, from standard input or from a file.

Called by the commands before anything is written. Guarantees: what is accepted is stored exactly as it was meant; everything else
is an `InvalidError` in well under a second, whatever the text is.
"""

import sys
from pathlib import Path
from typing import Any

from mainspring.core.jsontext import MOST_TEXT, read_object
from mainspring.errors import InvalidError

_FIELD = "args"


def read_arguments(given: str) -> dict[str, Any]:
    """A job's arguments: JSON as text, `-` for standard input, `@FILE` for a file."""
    return read_object(_FIELD, _fetched(given))


def _fetched(given: str) -> str | bytes:
    try:
        if given == "-":
            return sys.stdin.buffer.read(MOST_TEXT + 1)
        if given.startswith("@"):
            with Path(given[1:]).open("rb") as file:
                return file.read(MOST_TEXT + 1)
    except OSError as error:
        raise InvalidError(_FIELD, f"cannot read {given[1:]}: {error.strerror}") from None
    return given
