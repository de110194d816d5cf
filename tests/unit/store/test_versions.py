"""Which code may work with which database."""

import pytest

from mainspring.errors import StoreVersionError
from mainspring.store.queries import Migration
from mainspring.store.versions import Applied, missing_migrations, oldest_code


def migration(number: int, works_with: int | None = None) -> Migration:
    return Migration(number, "m", f"-- {number}\n" + ("" if works_with is None else f"-- works with: {works_with}\n"))


# 2 and 3 only add, 4 removes what 3 does not use any more
HISTORY = [migration(1), migration(2, works_with=1), migration(3, works_with=1), migration(4, works_with=3)]


def database(newest: int) -> list[Applied]:
    return [Applied(m.number, m.checksum, m.works_with) for m in HISTORY[:newest]]


def test_a_migration_works_with_its_own_code_only_unless_it_says_otherwise() -> None:
    assert [m.works_with for m in HISTORY] == [1, 1, 1, 3]
    assert Migration(7, "m", "select 1 -- works with: 3").works_with == 7  # a header is a line of its own


@pytest.mark.parametrize("newest", range(5))
def test_older_databases_get_what_they_miss(newest: int) -> None:
    assert missing_migrations(HISTORY, database(newest), "x") == HISTORY[newest:]


@pytest.mark.parametrize(
    ("code", "newest", "works"),
    [(1, 2, True), (1, 3, True), (2, 3, True), (3, 4, True), (2, 4, False), (1, 4, False)],
)
def test_newer_databases_are_opened_by_the_code_they_work_with_and_are_left_as_they_are(
    code: int, newest: int, works: bool
) -> None:
    if works:
        assert missing_migrations(HISTORY[:code], database(newest), "x") == []
        return
    with pytest.raises(
        StoreVersionError, match=f"x was written by a newer .* of schema 3, this one has {code}; upgrade"
    ):
        missing_migrations(HISTORY[:code], database(newest), "x")


def test_what_needs_newer_code_is_not_made_harmless_by_what_came_after_it() -> None:
    after = [*database(4), Applied(5, "five", works_with=1)]
    assert oldest_code(after) == 3


def test_a_migration_from_before_they_said_so_needs_its_own_code() -> None:
    assert oldest_code([Applied(1, "x"), Applied(2, "y")]) == 2
    assert oldest_code([]) == 0


def test_a_migration_that_is_not_ours_is_refused_whatever_it_works_with() -> None:
    with pytest.raises(StoreVersionError, match="migration 2 of x is not the one this version ships"):
        missing_migrations(HISTORY, [Applied(1, HISTORY[0].checksum), Applied(2, "another", 1)], "x")
