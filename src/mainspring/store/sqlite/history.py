"""Counts of jobs, and what has ended since when: for people and for those who listen (see `store.contract.Jobs`)."""

from collections.abc import Sequence

from mainspring.core.lifecycle import ENDED
from mainspring.core.timer import Micros
from mainspring.store.contract import EndedJob, Tally, UsageTally
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.usage import add_usage, usage_until


def count_jobs(connection: Reader, tenant: str | None) -> dict[tuple[str, str], int]:
    return {(queue, state): count for queue, state, count in connection.execute(Q["count_jobs"], (tenant,))}


def list_ended(connection: Reader, tenants: Sequence[str], since: Micros, limit: int) -> list[EndedJob]:
    found = [
        EndedJob(*row)
        for tenant in set(tenants)
        for state in ENDED
        for row in connection.execute(Q["list_ended"], (tenant, state, since, limit))
    ]
    found.sort(key=lambda ended: (ended.finished_at, ended.job))
    return found[:limit]


def tally_ended(connection: Reader, tenant: str, since: Micros, until: Micros, step: Micros) -> list[Tally]:
    return [
        Tally(*row)
        for state in sorted(ENDED)
        for row in connection.execute(Q["tally_ended"], (tenant, state, since, until, step))
    ]


def tally_usage(
    connection: Reader, tenant: str, since: Micros, until: Micros, limit: int
) -> tuple[list[UsageTally], Micros]:
    cuts = [connection.execute(Q["usage_cut"], (tenant, state, since, until, limit)).get for state in ENDED]
    until = usage_until(since, until, cuts)
    rows = [
        UsageTally(*row)
        for state in sorted(ENDED)
        for row in connection.execute(Q["tally_usage"], (tenant, state, since, until))
    ]
    return add_usage(rows), until


def count_waiting(connection: Reader) -> dict[int, int]:
    return dict(connection.execute(Q["count_waiting"]).fetchall())
