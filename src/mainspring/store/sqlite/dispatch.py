"""Reading the ready order and assigning from it (see `store.contract.Dispatch`)."""

from collections.abc import Sequence

import apsw

from mainspring.core.timer import SECOND, Micros
from mainspring.store.contract import Assigned, Pick, Ready, Spec, Stream
from mainspring.store.sqlite.database import Q
from mainspring.store.sqlite.jobs import array
from mainspring.store.sqlite.writer import Tx

_FIRST = (-(1 << 63), b"")


def list_streams(connection: apsw.Connection, partitions: Sequence[int]) -> list[tuple[int, int, int, Micros]]:
    streams = []
    for partition in partitions:
        row = connection.execute(Q["first_stream"], (partition,)).fetchone()
        while row is not None:
            streams.append((partition, *row))
            row = connection.execute(Q["next_stream"], (partition, row[0], row[1])).fetchone()
    return streams


def read_ready(connection: apsw.Connection, stream: Stream, after: tuple[Micros, bytes] | None, limit: int) -> list[Ready]:
    rows = connection.execute(Q["read_ready"], (*stream, *(after or _FIRST), limit)).fetchall()
    return [Ready(rank, job, attempt) for rank, job, attempt in rows]


def read_specs(connection: apsw.Connection, ids: Sequence[bytes]) -> list[Spec]:
    rows = connection.execute(Q["read_specs"], (array(ids),)).fetchall()
    return [Spec(job, arguments, options, failures) for job, arguments, options, failures in rows]


def assign_jobs(tx: Tx, picks: Sequence[Pick]) -> list[Assigned]:
    sessions = {pick.session for pick in picks}
    open_ = {row[0] for row in tx.execute(Q["open_sessions"], (array(sessions),))}
    return [_assign(tx, pick) if pick.session in open_ else Assigned([], lost=pick.jobs) for pick in picks]


def _assign(tx: Tx, pick: Pick) -> Assigned:
    jobs, held, until = pick.jobs, [], None
    if pick.limits:
        free, until = _admitted(tx, pick)
        jobs, held = pick.jobs[:free], pick.jobs[free:]
    won = _win(tx, pick, jobs)
    lost = [] if len(won) == len(jobs) else [job for job in jobs if job not in won]
    if pick.limits and won:
        _take_limits(tx, pick, [job.job for job in won])
    return Assigned(won, lost, held, until)


def _win(tx: Tx, pick: Pick, jobs: list[Ready]) -> list[Ready]:
    """The jobs that were still ours to take. Almost always all of them, so that is tried first, as one statement."""
    by_attempt: dict[int, list[Ready]] = {}
    for job in jobs:
        by_attempt.setdefault(job.attempt, []).append(job)
    won: list[Ready] = []
    for attempt, group in by_attempt.items():
        ids = array(job.job for job in group)
        tx.execute("savepoint assign")
        tx.execute(Q["assign_jobs"], (ids, tx.now, attempt))
        if tx.connection.changes() != len(group):
            tx.execute("rollback to assign")
            able = {row[0] for row in tx.execute(Q["assignable_jobs"], (ids, attempt))}
            group = [job for job in group if job.job in able]
            ids = array(job.job for job in group)
            tx.execute(Q["assign_jobs"], (ids, tx.now, attempt))
        tx.execute("release assign")
        if group:
            tx.execute(Q["assigned_ready"], (ids, *pick.stream, group[0].rank, group[-1].rank))
            tx.execute(Q["insert_live"], (ids, pick.session, attempt + 1))
            won += group
    return won


def _admitted(tx: Tx, pick: Pick) -> tuple[int, Micros | None]:
    """How many of a pick's jobs its limits let through now, and when the next may come where that is known."""
    free, until = len(pick.jobs), None
    for name, key in pick.limits:
        rule = tx.execute(Q["read_limit"], (name,)).fetchone()
        if rule is None:
            continue
        concurrency, rate, burst = rule
        if concurrency is not None:
            free = min(free, concurrency - tx.execute(Q["count_held"], (name, key)).get)
        if rate is not None:
            tokens, next_at = _tokens(tx, name, key, rate, burst)
            free = min(free, tokens)
            if free == tokens:
                until = next_at
    return max(free, 0), until


def _tokens(tx: Tx, name: str, key: str, rate: float, burst: int) -> tuple[int, Micros]:
    """Starts that the rate allows at this moment, and when one more will be allowed (a leaky bucket kept as one time)."""
    interval = SECOND / rate
    next_free_at = max(tx.execute(Q["read_limit_state"], (name, key)).get or 0, tx.now)
    behind = (next_free_at - tx.now) / interval
    tokens = max(0, int(burst - behind))
    return tokens, int(next_free_at + (tokens + 1 - burst) * interval) + 1


def _take_limits(tx: Tx, pick: Pick, jobs: list[bytes]) -> None:
    for name, key in pick.limits:
        rule = tx.execute(Q["read_limit"], (name,)).fetchone()
        if rule is None:
            continue
        tx.execute(Q["insert_held"], (array(jobs), name, key))
        if rule[1] is not None:
            last = max(tx.execute(Q["read_limit_state"], (name, key)).get or 0, tx.now)
            tx.execute(Q["put_limit_state"], (name, key, int(last + len(jobs) * SECOND / rule[1])))
