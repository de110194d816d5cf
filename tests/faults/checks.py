"""The checkers: the effect log against what was acknowledged, schedules against the clock, the tables against themselves."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct, json

from contract.invariants import check_rows
from faults.harness import Site
from mainspring.core.partition import format_id


class Tally(NamedTuple):
    """What the checker found. `repeats`: runs beyond the first of a job. `unexplained`: those that no lost or failed attempt
    in the store explains."""

    runs: int
    repeats: int
    unexplained: int


def check_effects(site: Site, acknowledged: Iterable[str]) -> Tally:
    """Lost is 0; every run has an attempt number of its own, and none that the store has not given out."""
    effects = site.effects()
    runs = Counter(effect.job for effect in effects)
    lost = [job for job in acknowledged if job not in runs]
    assert not lost, f"{len(lost)} acknowledged jobs never ran, such as {lost[:3]}"
    attempts = Counter(effect[:2] for effect in effects)
    twice = sorted(effect for effect in effects if attempts[effect[:2]] > 1)
    assert not twice, f"{len(twice)} runs of attempts that ran more than once, such as {twice[:4]}"
    stored = {format_id(row[0]): row[1:] for row in site.rows("select id, attempt, losses, failures from job")}
    unknown = [effect for effect in effects if effect.job in stored and effect.attempt > stored[effect.job][0]]
    assert not unknown, f"runs that the store knows nothing of: {unknown[:3]}"
    allowed = {job: 1 + losses + failures for job, (_, losses, failures) in stored.items()}
    unexplained = sum(max(0, count - allowed.get(job, 1)) for job, count in runs.items())
    return Tally(len(effects), len(effects) - len(runs), unexplained)


def check_occurrences(site: Site, schedule: str, every: int) -> int:
    """Each time from a schedule's first to its last fired once or is recorded as missed; how many jobs it made."""
    rows = site.rows("select occurrence_at from occurrence where schedule = ? order by 1", schedule)
    made = [options for (options,) in site.rows("select options from spec") if _schedule_of(options) == schedule]
    assert len(made) == len(rows), "more than one job for an occurrence"
    missed = site.rows("select first_at, last_at from missed where schedule = ?", schedule)
    covered = sorted([(at, at) for (at,) in rows] + missed)
    wrong = [(a, b) for a, b in pairwise(covered) if b[0] - a[1] != every]
    assert not wrong, f"{len(wrong)} gaps or repeats, such as {wrong[0]}"
    return len(rows)


class _Scheduled(Struct):
    schedule: str | None = None


def _schedule_of(options: bytes) -> str | None:
    return json.decode(options, type=_Scheduled).schedule


def check_tables(site: Site) -> None:
    """What must hold in the tables whatever happened, and the database itself is whole."""
    check_rows(site.rows, site.value("select count(*) from partition"))
    site.place.check()
