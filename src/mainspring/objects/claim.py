"""Whose place it is: all nodes of an installation must use the same one, and no other installation.

The place has a mark, made at the first use: the id of the installation and one of its own. Both are also in the store, where
whoever comes first decides. A node that finds another mark, or none where there should be one, refuses: it would not see what
others store, and would remove what is not its own.
"""

import secrets
from collections.abc import Awaitable, Callable

from mainspring.errors import InvalidError

MARK = "mainspring-objects"  # an object beside those of jobs

#: Name and value of a setting of the installation -> the value it has. None: as it is, if it is.
Agree = Callable[[str, str | None], Awaitable[str | None]]

Read = Callable[[], Awaitable[str | None]]
Make = Callable[[str], Awaitable[bool]]


async def claimed(place: str, agree: Agree, read: Read, make: Make, *, write: bool) -> bool:
    """Is the place ours, and used? False: nobody has stored an object yet, and nobody will who only reads. InvalidError where it is
    another's. `read` gives its mark, `make` makes one where there is none (False where somebody was faster)."""
    found = await read()
    if found is None:
        if not write:
            return await _unused(place, agree)
        installation = await agree("installation", secrets.token_hex(16))
        mark = f"{installation} {secrets.token_hex(16)}"
        found = mark if await make(mark) else await read()
    installation = await agree("installation", None)
    if found is None or found.partition(" ")[0] != installation:
        raise InvalidError("objects", f"{place} has the objects of another installation: {_TODO}")
    if await agree("objects", found) != found:
        raise _elsewhere(place)
    return True


async def _unused(place: str, agree: Agree) -> bool:
    if await agree("objects", None) is not None:
        raise _elsewhere(place)
    return False


def _elsewhere(place: str) -> InvalidError:
    return InvalidError("objects", f"the objects of this installation are not at {place}: {_TODO}")


_TODO = "set MAINSPRING_OBJECTS to the place that its other nodes use"
