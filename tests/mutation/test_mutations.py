"""Each guard is taken out of a copy of the source, and the test that is named for it must go red.

The copy is found through PYTHONPATH before the installed package. A control run shows that the same tests are green on a
copy without changes. Where two guards protect the same thing, the mutation takes out both: `docs/internals/testing.md` says which.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from postgres.server import Server

REPO = Path(__file__).parents[2]
SQL = "store/sqlite/queries.sql"
PG = "store/postgres/queries.sql"


class Mutation(Struct, frozen=True):
    """(file, what is there, what is there instead), and the test that must notice."""

    edits: tuple[tuple[str, str, str], ...]
    test: str


SQLITE = {
    "a: assign without the state and attempt it expects": Mutation(
        (
            (
                SQL,
                "started_at = ?2\nwhere id in (select value from carray(?1)) and state = 'pending' and attempt = ?3",
                "started_at = ?2\nwhere id in (select value from carray(?1)) and ?3 is not null",
            ),
        ),
        "tests/contract/test_dispatch.py::test_i4_a_pick_with_an_old_attempt_wins_nothing",
    ),
    "a: assign without that and without the ready row": Mutation(
        (
            (
                SQL,
                "started_at = ?2\nwhere id in (select value from carray(?1)) and state = 'pending' and attempt = ?3",
                "started_at = ?2\nwhere id in (select value from carray(?1)) and ?3 is not null",
            ),
            (
                "store/sqlite/dispatch.py",
                'tx.execute(Q["assigned_ready"], (bound, tx.partitions, EVERY_BYTE))\n'
                "        if tx.connection.changes() != len(jobs):",
                'tx.execute(Q["assigned_ready"], (bound, tx.partitions, EVERY_BYTE))\n        if False:',
            ),
        ),
        "tests/contract/test_dispatch.py::test_i3_i4_a_job_can_be_assigned_once_however_often_it_was_read",
    ),
    "b: a key is not looked for": Mutation(
        (
            (
                "store/sqlite/jobs.py",
                "if row is not None and (row[2] is None or row[2] > tx.now) and not",
                "if row is not None and False and not",
            ),
        ),
        "tests/contract/test_jobs.py::test_i2_a_second_job_with_the_key_is_answered_with_the_first",
    ),
    "b: the primary key of claims lets two jobs have one key": Mutation(
        (
            (
                "store/sqlite/migrations/0001_tables.sql",
                "  expires_at integer,\n  primary key (tenant, key)\n",
                "  expires_at integer,\n  primary key (tenant, key, job)\n",
            ),
        ),
        "tests/contract/test_jobs.py::test_i2_unique_ends_with_its_period_to_the_microsecond",
    ),
    "c: a firing does not ask for the version it read": Mutation(
        (
            (
                SQL,
                "runs = ?5, version = version + 1 where id = ?1 and version = ?2",
                "runs = ?5, version = version + 1 where id = ?1 and ?2 is not null",
            ),
        ),
        "tests/contract/test_schedules.py::test_i9_a_firing_with_an_old_version_writes_nothing_at_all",
    ),
    "c: a plan does not look at the watermark": Mutation(
        (("core/occurrence.py", "edge = max(watermark, now - grace - _TICK)", "edge = now - grace - _TICK"),),
        "tests/unit/sweep/test_parts.py"
        "::test_i9_nothing_at_or_before_the_watermark_fires_again_not_even_when_its_job_is_gone",
    ),
    "d: settle does not ask for the attempt": Mutation(
        (
            (
                SQL,
                "delete from live where session = ?2 and attempt = ?3 and job in",
                "delete from live where session = ?2 and ?3 is not null and job in",
            ),
            (
                SQL,
                "where id in (select value from carray(?1)) and attempt = ?3 and state in ('assigned', 'running')",
                "where id in (select value from carray(?1)) and ?3 is not null and state in ('assigned', 'running')",
            ),
            (
                SQL,
                "where id = substr(value, 1, 16) and attempt = ?3 and state in ('assigned', 'running')",
                "where id = substr(value, 1, 16) and ?3 is not null and state in ('assigned', 'running')",
            ),
            (
                SQL,
                "select 1 from live where session = ? and job = ? and attempt = ?",
                "select 1 from live where session = ? and job = ? and ? is not null",
            ),
            ("store/sqlite/attempts.py", "row is None or row.attempt != attempt or", "row is None or"),
        ),
        "tests/contract/test_attempts.py::test_i4_an_outcome_of_an_old_attempt_changes_nothing",
    ),
    "d: settle does not ask for the session": Mutation(
        (
            (
                SQL,
                "delete from live where session = ?2 and attempt = ?3 and job in",
                "delete from live where ?2 is not null and attempt = ?3 and job in",
            ),
        ),
        "tests/contract/test_attempts.py::test_i6_an_outcome_from_a_session_that_does_not_have_the_job_changes_nothing",
    ),
    "a: assign without the lane it expects": Mutation(
        ((SQL, "(?4 is null or lane = ?4)", "(?4 is null or lane is not null)"),),
        "tests/contract/test_changes.py"
        "::test_i13_a_job_that_changed_its_lane_does_not_start_by_what_was_read_in_the_old_one",
    ),
    "a: assign without the many lanes it expects": Mutation(
        (("store/sqlite/dispatch.py", "if len(lanes) > 1 and not", "if len(lanes) < 1 and not"),),
        "tests/contract/test_changes.py"
        "::test_i13_a_job_that_changed_its_lane_does_not_start_by_what_was_read_in_the_old_one",
    ),
    "d: a change does not ask for the attempt": Mutation(
        (("store/rows.py", "if able and change.attempt in (None, row.attempt):", "if able:"),),
        "tests/contract/test_changes.py::test_i4_a_change_names_the_attempt_it_was_made_for",
    ),
    "d: progress does not ask for the attempt": Mutation(
        (
            (
                SQL,
                "from job where id = ?1 and attempt = ?2 and state in ('assigned', 'running')",
                "from job where id = ?1 and ?2 is not null and state in ('assigned', 'running')",
            ),
        ),
        "tests/contract/test_progress.py::test_i4_only_a_live_attempt_is_listened_to",
    ),
    "f: a token can be spent twice": Mutation(
        (
            (
                SQL,
                "where id = ?1 and revoked_at is null and (expires_at is null",
                "where id = ?1 and (expires_at is null",
            ),
        ),
        "tests/contract/test_keys.py::test_of_many_who_spend_a_token_at_once_one_gets_a_key",
    ),
    "f: a template's version does not follow the last one": Mutation(
        (("store/sqlite/templates.py", "if r.version != last + 1:", "if r.version <= last:"),),
        "tests/contract/test_templates.py::test_a_version_that_does_not_follow_the_last_one_is_refused",
    ),
    "f: an erased tenant leaves its lanes": Mutation(
        (("store/sqlite/tenants.py", ', "erase_lanes"', ""),),
        "tests/contract/test_tenants.py::test_nothing_is_left_of_an_erased_tenant_and_nothing_of_others_is_touched",
    ),
    "a: assign to a session that another node has adopted": Mutation(
        ((SQL, "carray(?1)) and (?2 is null or node = ?2)", "carray(?1)) and (?2 is null or 1)"),),
        "tests/contract/test_orphans.py::test_who_no_longer_has_a_session_neither_ends_it_nor_assigns_to_it",
    ),
    "f: a session is adopted whose node lives": Mutation(
        ((SQL, "and (node = ?2 or node in (select id from node where ended_at is not null))\n", "\n"),),
        "tests/contract/test_orphans.py::test_what_is_no_orphan_is_not_adopted",
    ),
    "e: no savepoint around an operation of a group": Mutation(
        (
            ("store/sqlite/writer.py", 'tx.execute("savepoint operation")', "pass"),
            ("store/sqlite/writer.py", 'tx.execute("rollback to operation")', "pass"),
            ("store/sqlite/writer.py", 'tx.execute("release operation")', "pass"),
        ),
        "tests/contract/test_files.py::test_e_an_operation_that_fails_changes_nothing_and_harms_nobody_in_its_group",
    ),
}


_ASSIGN_ANYTHING = (
    (
        PG,
        "where j.id = u.job and j.state = 'pending' and j.attempt = u.attempt and j.lane = u.lane offset 0) j)",
        "where j.id = u.job and j.lane = u.lane offset 0) j)",
    ),
    (
        PG,
        "where ctid = any(array(select place from found)) and state = 'pending' returning 1)",
        "where ctid = any(array(select place from found)) returning 1)",
    ),
)

# The same guards in the PostgreSQL store.
POSTGRES = {
    "a: assign without the state and attempt it expects": Mutation(
        _ASSIGN_ANYTHING, "tests/contract/test_dispatch.py::test_i4_a_pick_with_an_old_attempt_wins_nothing"
    ),
    "a: assign without that and without the ready row": Mutation(
        (
            *_ASSIGN_ANYTHING,
            (
                PG,
                "(select count(*) from moved) = cardinality($1) and (select count(*) from taken) = cardinality($1)\n    and",
                "cardinality($1) > 0 and",
            ),
        ),
        "tests/contract/test_dispatch.py::test_i3_i4_a_job_can_be_assigned_once_however_often_it_was_read",
    ),
    "a: assign to a session that has ended": Mutation(
        (
            (PG, "where id = any($1::bytea[]) and ended_at is null and ($2", "where id = any($1::bytea[]) and ($2"),
            (PG, "where id = any($7::bytea[]) and ended_at is null and ($8", "where id = any($7::bytea[]) and ($8"),
        ),
        "tests/contract/test_dispatch.py::test_i3_an_ended_session_wins_nothing_and_the_others_of_the_call_do",
    ),
    "a: assign to a session that another node has adopted": Mutation(
        (
            (PG, "($2::bytea is null or node = $2) order by id", "($2::bytea is null or true) order by id"),
            (PG, "($8::bytea is null or node = $8)", "($8::bytea is null or true)"),
        ),
        "tests/contract/test_orphans.py::test_who_no_longer_has_a_session_neither_ends_it_nor_assigns_to_it",
    ),
    "f: a session is adopted whose node lives": Mutation(
        (
            (
                PG,
                "(select n.ended_at from mainspring.node n where n.id = s.node) is not null) returning 1",
                "true) returning 1",
            ),
        ),
        "tests/contract/test_orphans.py::test_what_is_no_orphan_is_not_adopted",
    ),
    "b: a key that is taken is taken again": Mutation(
        ((PG, "where claim.expires_at <= $6::int8\n", "where $6::int8 is not null\n"),),
        "tests/contract/test_jobs.py::test_i2_a_second_job_with_the_key_is_answered_with_the_first",
    ),
    "b: the primary key of claims lets two jobs have one key": Mutation(
        (
            (
                "store/postgres/migrations/0001_tables.sql",
                "  expires_at bigint,\n  primary key (tenant, key)\n",
                "  expires_at bigint,\n  primary key (tenant, key, job)\n",
            ),
            (
                PG,
                "on conflict (tenant, key) do update set job = excluded.job, digest",
                "on conflict (tenant, key, job) do update set digest",
            ),
        ),
        "tests/contract/test_jobs.py::test_i2_a_second_job_with_the_key_is_answered_with_the_first",
    ),
    "c: a firing does not ask for the version it read": Mutation(
        ((PG, "where s.id = u.id and s.version = u.version returning s.id", "where s.id = u.id returning s.id"),),
        "tests/contract/test_schedules.py::test_i9_a_firing_with_an_old_version_writes_nothing_at_all",
    ),
    "d: settle does not ask for the attempt": Mutation(
        (
            (
                PG,
                "where l.session = $1 and l.job = u.job and l.attempt = u.attempt offset 0) l)",
                "where l.session = $1 and l.job = u.job offset 0) l)",
            ),
            (
                PG,
                "where l.session = u.session and l.job = u.job and l.attempt = u.attempt offset 0) l)",
                "where l.session = u.session and l.job = u.job offset 0) l)",
            ),
            ("store/postgres/attempts.py", "row is None or row.attempt != s.attempt or", "row is None or"),
        ),
        "tests/contract/test_attempts.py::test_i4_an_outcome_of_an_old_attempt_changes_nothing",
    ),
    "d: settle does not ask for the session": Mutation(
        (
            (
                PG,
                "where l.session = $1 and l.job = u.job and l.attempt = u.attempt offset 0) l)",
                "where $1::bytea is not null and l.job = u.job and l.attempt = u.attempt offset 0) l)",
            ),
        ),
        "tests/contract/test_attempts.py::test_i6_an_outcome_from_a_session_that_does_not_have_the_job_changes_nothing",
    ),
    "e: a group that is refused is not tried again one by one": Mutation(
        (("store/postgres/grouping.py", "if len(group) > 1 and not isinstance(error, StoreError):", "if False:"),),
        "tests/contract/test_jobs.py::test_i1_a_job_that_the_database_refuses_harms_nobody_who_submits_at_the_same_time",
    ),
    "f: what becomes of jobs is decided without locking them": Mutation(
        (
            (
                PG,
                "from mainspring.job where id = any($1::uuid[]) order by ctid for update\n",
                "from mainspring.job where id = any($1::uuid[])\n",
            ),
        ),
        "tests/contract/test_storm.py"
        "::test_i3_i4_i6_i9_whatever_many_callers_do_at_once_nothing_happens_twice_and_everything_can_end",
    ),
}


@pytest.fixture
def source() -> Iterator[Path]:
    """A copy of the source."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        shutil.copytree(
            REPO / "src" / "mainspring", Path(name) / "mainspring", ignore=shutil.ignore_patterns("__pycache__")
        )
        yield Path(name)


def run(source: Path, *tests: str, server: Server | None = None) -> subprocess.CompletedProcess[str]:
    """These tests against that source, in a process of their own: on PostgreSQL where there is a server, else on SQLite."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    environ["PYTHONPATH"] = str(source)
    where = subprocess.run(
        [sys.executable, "-c", "import mainspring; print(mainspring.__file__)"],
        env=environ, cwd=source, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(source)), "the copy is not what runs"
    others = "postgres or pgbouncer or shards"
    if server is not None:
        environ["MAINSPRING_TEST_POSTGRES"] = server.url
        others = "sqlite or pgbouncer or shards"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-x",
        "-k",
        f"not ({others})",
    ]
    return subprocess.run(
        [*command, *tests], env=environ, cwd=REPO, capture_output=True, text=True, timeout=120, check=False
    )


def mutate(source: Path, mutation: Mutation) -> None:
    for file, old, new in mutation.edits:
        path = source / "mainspring" / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} has changed: bring this mutation up to date"
        path.write_text(text.replace(old, new))


def assert_noticed(mutation: Mutation, ended: subprocess.CompletedProcess[str]) -> None:
    assert ended.returncode == 1, f"{mutation.test} does not notice:\n{ended.stdout}\n{ended.stderr}"
    assert f"FAILED {mutation.test}" in ended.stdout
    assert "AssertionError" in ended.stdout or "assert " in ended.stdout, f"red for another reason:\n{ended.stdout}"


@pytest.mark.parametrize("name", SQLITE)
def test_a_guard_that_is_missing_is_noticed(name: str, source: Path) -> None:
    mutate(source, SQLITE[name])
    assert_noticed(SQLITE[name], run(source, SQLITE[name].test))


@pytest.mark.parametrize("name", POSTGRES)
def test_a_guard_that_is_missing_on_postgresql_is_noticed(name: str, source: Path, postgres: Server) -> None:
    mutate(source, POSTGRES[name])
    assert_noticed(POSTGRES[name], run(source, POSTGRES[name].test, server=postgres))


def test_without_a_mutation_the_same_tests_are_green(source: Path) -> None:
    ended = run(source, *sorted({mutation.test for mutation in SQLITE.values()}))
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_without_a_mutation_the_same_tests_are_green_on_postgresql(source: Path, postgres: Server) -> None:
    ended = run(source, *sorted({mutation.test for mutation in POSTGRES.values()}), server=postgres)
    assert ended.returncode == 0, ended.stdout + ended.stderr
