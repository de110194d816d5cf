"""Reading the ready order and assigning from it (see `store.contract.Dispatch`)."""

from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import structs

from mainspring.core.timer import SECOND, Micros
from mainspring.store.contract import Assigned, LimitUse, Pick, Place, Ready, Spec, Stream
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.jobs import EVERY_BYTE, array
from mainspring.store.sqlite.writer import Tx

_ROUNDING = 1e-6  # of a token
_FIRST = (-(1 << 63), b"")


def list_streams(connection: Reader, partitions: Sequence[int]) -> list[tuple[int, int, int, Micros]]:
    streams = []
    for partition in partitions:
        row = connection.execute(Q["first_stream"], (partition,)).fetchone()
        while row is not None:
            streams.append((partition, *row))
            row = connection.execute(Q["next_stream"], (partition, row[0], row[1])).fetchone()
    return streams


def read_ready(connection: Reader, wanted: Sequence[tuple[Stream, Place | None]], limit: int) -> list[list[Ready]]:
    return [
        [Ready(*row) for row in connection.execute(Q["read_ready"], (*stream, *(after or _FIRST), limit))]
        for stream, after in wanted
    ]


def read_specs(connection: Reader, ids: Sequence[bytes]) -> list[Spec]:
    rows = connection.execute(Q["read_specs"], (array(ids),)).fetchall()
    return [Spec(job, arguments, options, failures) for job, arguments, options, failures in rows]


def assign_jobs(tx: Tx, picks: Sequence[Pick]) -> tuple[list[Assigned], dict[bytes, Spec]]:
    """The answers, and at once what workers must know of the jobs won: their rows are at hand here, and nowhere else."""
    answers = _assign(tx, picks)
    return answers, _first_specs(tx, [job.job for answer in answers for job in answer.won if job.attempt == 0])


def _first_specs(tx: Tx, ids: list[bytes]) -> dict[bytes, Spec]:
    """For first attempts, which have no failures. None where a text has more lines than jobs: then they are read one by one."""
    if not ids:
        return {}
    arguments, options = (text.split(b"\n") for text in tx.execute(Q["first_specs"], (array(ids),)).fetchone())
    if not len(arguments) == len(options) == len(ids):
        return {}
    return {id_: Spec(id_, a, o, 0) for id_, a, o in zip(ids, arguments, options, strict=True)}


def _assign(tx: Tx, picks: Sequence[Pick]) -> list[Assigned]:
    sessions = {pick.session for pick in picks}
    open_ = {row[0] for row in tx.execute(Q["open_sessions"], (array(sessions),))}
    together = iter(_assign_together(tx, [pick for pick in picks if pick.session in open_ and not pick.limits]))
    return [
        Assigned([], lost=pick.jobs)
        if pick.session not in open_
        else _assign_limited(tx, pick)
        if pick.limits
        else next(together)
        for pick in picks
    ]


def _assign_together(tx: Tx, picks: list[Pick]) -> list[Assigned]:
    """Assign what is still there to assign. Almost always everything is, so that is tried first."""
    if _write(tx, picks):
        return [Assigned(pick.jobs) for pick in picks]
    tx.execute("rollback to operation")
    able = _assignable(tx, [job for pick in picks for job in pick.jobs])
    answers = [_answer(pick.jobs, able) for pick in picks]
    _write(tx, [structs.replace(pick, jobs=answer.won) for pick, answer in zip(picks, answers, strict=True)])
    return answers


def _assign_limited(tx: Tx, pick: Pick) -> Assigned:
    free, until = _admitted(tx, pick)
    answer = _answer(pick.jobs[:free], _assignable(tx, pick.jobs[:free]))
    _write(tx, [structs.replace(pick, jobs=answer.won)])
    _take_limits(tx, pick, [job.job for job in answer.won])
    return Assigned(answer.won, answer.lost, pick.jobs[free:], until)


def _answer(jobs: list[Ready], able: set[tuple[bytes, int]]) -> Assigned:
    """What can be won is won once, however often it was picked."""
    won: list[Ready] = []
    lost: list[Ready] = []
    for job in jobs:
        key = (job.job, job.attempt)
        (won if key in able else lost).append(job)
        able.discard(key)
    return Assigned(won, lost)


def _assignable(tx: Tx, jobs: list[Ready]) -> set[tuple[bytes, int]]:
    """The jobs that are still pending and ready with the attempt that was read."""
    able: set[tuple[bytes, int]] = set()
    for attempt, ids in _by_attempt(jobs).items():
        rows = tx.execute(Q["assignable_jobs"], (array(ids), attempt, tx.partitions, EVERY_BYTE))
        able.update((row[0], attempt) for row in rows)
    return able


def _write(tx: Tx, picks: list[Pick]) -> bool:
    """pending -> assigned for all jobs of all picks; False, with some written, if one of them was not pending and ready."""
    for attempt, ids in _by_attempt(job for pick in picks for job in pick.jobs).items():
        bound = array(ids)
        tx.execute(Q["assign_jobs"], (bound, tx.now, attempt))
        if tx.connection.changes() != len(ids):
            return False
        tx.execute(Q["assigned_ready"], (bound, tx.partitions, EVERY_BYTE))
        if tx.connection.changes() != len(ids):
            return False
    for pick in picks:
        for attempt, ids in _by_attempt(pick.jobs).items():
            tx.execute(Q["insert_live"], (array(ids), pick.session, attempt + 1))
    return True


def _by_attempt(jobs: Iterable[Ready]) -> dict[int, list[bytes]]:
    groups: dict[int, list[bytes]] = {}
    for job in jobs:
        groups.setdefault(job.attempt, []).append(job.job)
    return groups


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
            tokens, next_at = _tokens(tx, tx.now, name, key, rate, burst)
            free = min(free, tokens)
            if free == tokens:
                until = next_at
    return max(free, 0), until


def read_limit_uses(connection: Reader, limits: Sequence[tuple[str, str]], now: Micros) -> list[LimitUse]:
    return [_limit_use(connection, name, key, now) for name, key in limits]


def _limit_use(connection: Reader, name: str, key: str, now: Micros) -> LimitUse:
    held = connection.execute(Q["count_held"], (name, key)).get
    rule = connection.execute(Q["read_limit"], (name,)).fetchone()
    if rule is None or rule[1] is None:
        return LimitUse(held, None)
    tokens, next_at = _tokens(connection, now, name, key, rule[1], rule[2])
    return LimitUse(held, None if tokens else next_at)


def _tokens(connection: Reader, now: Micros, name: str, key: str, rate: float, burst: int) -> tuple[int, Micros]:
    """Starts that the rate allows at this moment, and when one more will be allowed (a leaky bucket kept as one time)."""
    interval = SECOND / rate
    next_free_at = max(connection.execute(Q["read_limit_state"], (name, key)).get or 0, now)
    behind = (next_free_at - now) / interval
    tokens = max(0, int(burst - behind + _ROUNDING))
    return tokens, ceil(next_free_at + (tokens + 1 - burst) * interval)


def _take_limits(tx: Tx, pick: Pick, jobs: list[bytes]) -> None:
    if not jobs:
        return
    for name, key in pick.limits:
        rule = tx.execute(Q["read_limit"], (name,)).fetchone()
        if rule is None:
            continue
        tx.execute(Q["insert_held"], (array(jobs), name, key))
        if rule[1] is not None:
            last = max(tx.execute(Q["read_limit_state"], (name, key)).get or 0, tx.now)
            tx.execute(Q["put_limit_state"], (name, key, ceil(last + len(jobs) * SECOND / rule[1])))
