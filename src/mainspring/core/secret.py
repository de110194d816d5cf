"""What a secret may hold, and what a job may call one of its own. Pure.

A job's option `secrets` maps names of its own (`TOKEN`: what `ctx.secret` is asked for, or an environment variable) to names of its
tenant's secrets (`api-token`). Values are in none of that, and no error shows one.
"""

import re
from typing import Final

from mainspring.errors import InvalidError

SEALED: Final = b"sealed:"  # how everything begins that is sealed; JSON never does
OBJECT_KEY: Final = "\nobjects "  # how the names of keys of objects begin; no other secret has a line break
MIN_SECRET: Final = 4  # characters: what is shorter cannot be masked without tearing every text apart
MAX_SECRET_BYTES: Final = 32_768
MAX_SECRETS: Final = 32  # of one job

_LOCAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def check_secret(field: str, value: object) -> str:
    """A value that can be kept, given to a process as a variable, and masked."""
    if not isinstance(value, str):
        raise InvalidError(field, f"expected a text, got {type(value).__name__}")
    if len(value) < MIN_SECRET:
        raise InvalidError(
            field, f"has fewer than {MIN_SECRET} characters, too few to be masked in logs: use a longer one"
        )
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidError(field, "is not valid Unicode") from None
    if size > MAX_SECRET_BYTES or "\0" in value:
        raise InvalidError(field, f"has {size:,} bytes; up to {MAX_SECRET_BYTES:,} are allowed, and none may be 0")
    return value


def check_local_name(field: str, name: object) -> str:
    """A name that an environment variable may have."""
    if not isinstance(name, str) or not _LOCAL.fullmatch(name):
        raise InvalidError(field, f"{name!a} is no name for a variable: expected letters, digits and _, such as TOKEN")
    return name
