"""Changing the master key: all that is sealed gets the current one, a page at a time, while others set values, submit and settle.

A row is replaced only if it still is what was read; one that others changed meanwhile is looked at again. Values are not opened:
only the wrapping of their data keys changes. Where it stopped, it goes on; from the start it finds what is left.
"""

from typing import Final, get_args

from msgspec import Struct

from mainspring.errors import InvalidError, SecretsError
from mainspring.secrets.envelope import mark_of, rewrap
from mainspring.secrets.keys import MasterKeys
from mainspring.store.service import SealedIn, SealedRow, Secrets

PAGE: Final = 200  # rows looked at in one step: nobody waits long for it

_ORDER: Final[tuple[SealedIn, ...]] = get_args(SealedIn)
_TRIES: Final = 5


class Rotated(Struct, frozen=True):
    """One step: rows that have the current key now, rows that cannot be opened, and where to go on (None: that was all)."""

    changed: int
    unreadable: int
    next: str | None


async def rotate(store: Secrets, keys: MasterKeys, after: str | None = None) -> Rotated:
    """The next page, behind where an earlier step ended (None: from the start)."""
    where, place = _read_cursor(after)
    changed = 0
    for _ in range(_TRIES):
        rows, following = await store.list_sealed(where, mark_of(keys.current), place, PAGE)
        fresh = [(row, sealed) for row in rows if (sealed := _rewrapped(keys, row)) is not None]
        done = await store.replace_sealed(where, fresh, keys.current) if fresh else 0
        changed += done
        if done == len(fresh):
            return Rotated(changed, len(rows) - len(fresh), _cursor(where, following))
    return Rotated(changed, 0, f"{where}:{place}")  # others are busy with these rows: once more


def _rewrapped(keys: MasterKeys, row: SealedRow) -> bytes | None:
    """None: with a key that is not here, or broken."""
    try:
        return rewrap(keys, row.sealed)
    except SecretsError:
        return None


def _cursor(where: SealedIn, following: str | None) -> str | None:
    if following is not None:
        return f"{where}:{following}"
    behind = _ORDER.index(where) + 1
    return f"{_ORDER[behind]}:" if behind < len(_ORDER) else None


def _read_cursor(after: str | None) -> tuple[SealedIn, str]:
    where, colon, place = (after or f"{_ORDER[0]}:").partition(":")
    for known in _ORDER:
        if colon and where == known and (known == "secret" or _is_job(place)):
            return known, place
    raise InvalidError("after", f"{after[:60] if after else after!r} is not where an earlier step ended")


def _is_job(place: str) -> bool:
    return place == "" or (len(place) == 32 and all(digit in "0123456789abcdef" for digit in place))
