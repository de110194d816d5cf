"""The tables say what the lifecycle says, and the named queries are what the code asks for."""

import re
from pathlib import Path

import pytest

import mainspring.store.sqlite
from mainspring.core.lifecycle import ENDED, State
from mainspring.core.partition import SLOTS
from mainspring.store.queries import Migration, load_migrations, load_queries
from mainspring.store.sqlite.database import PARTITIONS, Q

PACKAGE = "mainspring.store.sqlite"


def checked_states(table: str) -> set[str]:
    (tables,) = [migration.sql for migration in load_migrations(PACKAGE) if migration.number == 1]
    body = tables.partition(f"create table {table} (")[2].partition("\n)")[0]
    found = re.search(r"state in\s*\(([^)]*)\)", body)
    assert found is not None
    return set(re.findall(r"'(\w+)'", found[1]))


def test_i5_the_database_knows_exactly_the_states_of_the_lifecycle() -> None:
    assert checked_states("job") == set(State)
    assert checked_states("finished") == set(ENDED)


def test_migrations_are_numbered_without_gaps_and_a_changed_one_has_another_checksum() -> None:
    migrations = load_migrations(PACKAGE)
    assert [migration.number for migration in migrations] == list(range(1, len(migrations) + 1))
    first = migrations[0]
    assert Migration(first.number, first.name, first.sql + " ").checksum != first.checksum


@pytest.mark.parametrize("package", [PACKAGE, "mainspring.store.postgres"])
def test_every_migration_says_which_code_works_with_the_database_after_it(package: str) -> None:
    for migration in load_migrations(package):
        released = (package, migration.number) == (
            PACKAGE,
            1,
        )  # before migrations said so, and it must not change any more
        assert ("-- works with: " in migration.sql) is not released
        assert 1 <= migration.works_with <= migration.number


def test_the_first_migration_is_the_one_that_was_released() -> None:
    assert load_migrations(PACKAGE)[0].checksum == "27ece0b2ac148b86e9e4385519487f6efb4a6b65ad3c650624ad695d162a475e"


def test_the_number_of_partitions_divides_the_slots() -> None:
    assert SLOTS % PARTITIONS == 0


def test_every_query_that_is_asked_for_exists_and_every_one_that_exists_is_asked_for() -> None:
    folder = Path(mainspring.store.sqlite.__file__).parent
    code = "\n".join(path.read_text() for path in folder.glob("*.py"))
    asked = set(re.findall(r'Q\["(\w+)"\]', code))
    assert asked <= set(Q)
    unused = {name for name in Q if f'"{name}"' not in code}
    assert unused == set()


def test_queries_keep_no_comments() -> None:
    assert not any("--" in sql for sql in load_queries(PACKAGE).values())
