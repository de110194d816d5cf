"""Reading the ready order and assigning from it (see `store.contract.Dispatch`)."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from mainspring.core.job import Limit
from mainspring.core.timer import Micros
from mainspring.store.contract import Assigned, LimitUse, Pick, Place, Ready, Spec, Stream
from mainspring.store.limits import LimitState, admitted
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.jobs import EVERY_BYTE, Array, array
from mainspring.store.sqlite.writer import Tx

_FIRST = (-(1 << 63), b"")

Able = tuple[bytes, int, int]  # job, attempt, lane


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
    node = picks[0].node if picks else None
    open_ = {row[0] for row in tx.execute(Q["open_sessions"], (array(sessions), node))}
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
    states = {(name, key): state for name, key in pick.limits if (state := _read_limit(tx.connection, name, key))}
    free, until = admitted(len(pick.jobs), list(states.values()), tx.now)
    answer = _answer(pick.jobs[:free], _assignable(tx, pick.jobs[:free]))
    _write(tx, [structs.replace(pick, jobs=answer.won)])
    for (name, key), state in states.items() if answer.won else ():
        state.take(len(answer.won), tx.now)
        tx.execute(Q["insert_held"], (array(job.job for job in answer.won), name, key))
        if state.rule.rate is not None:
            tx.execute(Q["put_limit_state"], (name, key, state.next_free_at))
    return Assigned(answer.won, answer.lost, pick.jobs[free:], until)


def _answer(jobs: list[Ready], able: set[Able]) -> Assigned:
    """What can be won is won once, however often it was picked."""
    won: list[Ready] = []
    lost: list[Ready] = []
    for job in jobs:
        key = (job.job, job.attempt, job.lane)
        (won if key in able else lost).append(job)
        able.discard(key)
    return Assigned(won, lost)


def _assignable(tx: Tx, jobs: list[Ready]) -> set[Able]:
    """The jobs that are still pending and ready with the attempt that was read, and their lanes."""
    able: set[Able] = set()
    for attempt, group in _by_attempt(jobs).items():
        ids = array(job.job for job in group)
        rows = tx.execute(Q["assignable_jobs"], (ids, attempt, tx.partitions, EVERY_BYTE))
        able.update((job, attempt, lane) for job, lane in rows)
    return able


def _write(tx: Tx, picks: list[Pick]) -> bool:
    """pending -> assigned for all jobs of all picks; False, with some written, if one of them was not as it was read."""
    for attempt, jobs in _by_attempt(job for pick in picks for job in pick.jobs).items():
        bound = array(job.job for job in jobs)
        lanes = {job.lane for job in jobs}
        tx.execute(Q["assign_jobs"], (bound, tx.now, attempt, jobs[0].lane if len(lanes) == 1 else None))
        if tx.connection.changes() != len(jobs):
            return False
        tx.execute(Q["assigned_ready"], (bound, tx.partitions, EVERY_BYTE))
        if tx.connection.changes() != len(jobs):
            return False
        if len(lanes) > 1 and not _in_lanes(tx, bound, jobs):
            return False
    for pick in picks:
        for attempt, jobs in _by_attempt(pick.jobs).items():
            tx.execute(Q["insert_live"], (array(job.job for job in jobs), pick.session, attempt + 1))
    return True


def _in_lanes(tx: Tx, bound: Array, jobs: list[Ready]) -> bool:
    return bool(tx.execute(Q["assigned_lanes"], (bound,)).get == ",".join(str(job.lane) for job in jobs))


def _by_attempt(jobs: Iterable[Ready]) -> dict[int, list[Ready]]:
    groups: dict[int, list[Ready]] = {}
    for job in jobs:
        groups.setdefault(job.attempt, []).append(job)
    return groups


def read_limit_uses(connection: Reader, limits: Sequence[tuple[str, str]], now: Micros) -> list[LimitUse]:
    return [(_read_limit(connection, *limit) or LimitState(Limit())).use(now) for limit in limits]


def _read_limit(connection: Reader, name: str, key: str) -> LimitState | None:
    rule = connection.execute(Q["read_limit"], (name,)).fetchone()
    if rule is None:
        return None
    held = connection.execute(Q["count_held"], (name, key)).get
    return LimitState(Limit(*rule), held, connection.execute(Q["read_limit_state"], (name, key)).get or 0)
