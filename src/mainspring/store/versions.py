"""Which migrations a database still needs, and whether this code may work with it at all; the same for every store. Pure.

Schemas expand first and contract later. A migration says in its header which code still works with the database after it:
`-- works with: 3` means code whose newest migration is 3, or any newer. The database remembers it, so code that does not have a
migration knows whether it may go on without it.
"""

from collections.abc import Sequence

from msgspec import Struct

from mainspring.errors import StoreVersionError
from mainspring.store.queries import Migration


class Applied(Struct, frozen=True):
    """A migration as the database remembers it. `works_with` None: from a time when migrations did not say."""

    number: int
    checksum: str
    works_with: int | None = None


def oldest_code(applied: Sequence[Applied]) -> int:
    """The oldest schema whose code works with a database that has these."""
    said = (a.number if a.works_with is None else a.works_with for a in applied)
    return max(said, default=0)


def missing_migrations(shipped: Sequence[Migration], applied: Sequence[Applied], place: str) -> list[Migration]:
    """What to apply. Refuses a database that needs newer code, and one whose migrations are not ours."""
    ours, oldest = shipped[-1].number, oldest_code(applied)
    if oldest > ours:
        raise StoreVersionError(
            f"{place} was written by a newer Mainspring: its schema needs code of schema {oldest}, this one has {ours}; "
            "upgrade this one"
        )
    known = {a.number: a.checksum for a in applied}
    for migration in shipped:
        if known.get(migration.number, migration.checksum) != migration.checksum:
            raise StoreVersionError(f"migration {migration.number} of {place} is not the one this version ships")
    return [migration for migration in shipped if migration.number not in known]
