"""Reading the ready order and assigning from it (see `store.contract.Dispatch`)."""

from collections.abc import Sequence

from msgspec import Struct, structs

from mainspring.core.job import Limit
from mainspring.core.timer import Micros
from mainspring.store.contract import Assigned, LimitUse, Pick, Place, Ready, Spec, Stream
from mainspring.store.limits import LimitState, admitted
from mainspring.store.postgres.database import Tx

_FIRST = (-(1 << 63), bytes(16))
_AFTER_ALL_BEFORE = bytes(16)  # a place may name no job: then it is before every job of its rank


async def list_streams(tx: Tx, partitions: Sequence[int]) -> list[tuple[int, int, int, Micros]]:
    return [tuple(row) for row in await tx.fetch("list_streams", partitions)] if partitions else []


async def read_ready(tx: Tx, wanted: Sequence[tuple[Stream, Place | None]], limit: int) -> list[list[Ready]]:
    found: list[list[Ready]] = [[] for _ in wanted]
    streams = [stream for stream, _ in wanted]
    places = [after or _FIRST for _, after in wanted]
    rows = await tx.fetch(
        "read_ready",
        [partition for partition, _, _ in streams],
        [band for _, band, _ in streams],
        [lane for _, _, lane in streams],
        [rank for rank, _ in places],
        [job or _AFTER_ALL_BEFORE for _, job in places],
        limit,
    )
    for number, rank, job, attempt in rows:
        found[number - 1].append(Ready(rank, job, attempt, streams[number - 1][2]))
    return found


async def read_specs(tx: Tx, ids: Sequence[bytes]) -> list[Spec]:
    return [Spec(*row) for row in await tx.fetch("read_specs", ids)]


class _Book(Struct):
    """The limits of some picks as they are, with what was taken so far."""

    states: dict[tuple[str, str], LimitState]

    def of(self, pick: Pick) -> list[tuple[tuple[str, str], LimitState]]:
        return [(limit, self.states[limit]) for limit in pick.limits if limit in self.states]


async def assign_jobs(tx: Tx, picks: Sequence[Pick]) -> tuple[list[Assigned], dict[bytes, Spec]]:
    """The answers, and at once what workers must know of the jobs won: their rows are at hand here, and nowhere else.

    Almost always everything is there to assign, so that is tried first."""
    if tx.tries or any(pick.limits for pick in picks):
        return await _assign_carefully(tx, picks)
    specs = await _write(tx, picks)
    return [Assigned(pick.jobs) for pick in picks], specs


async def _assign_carefully(tx: Tx, picks: Sequence[Pick]) -> tuple[list[Assigned], dict[bytes, Spec]]:
    """Lock what is there to assign, count what the limits let through, write that."""
    open_ = {row[0] for row in await tx.fetch("open_sessions", sorted({pick.session for pick in picks}), _node(picks))}
    book = await _lock_limits(tx, picks)
    wanted = sorted({job.job for pick in picks if pick.session in open_ for job in pick.jobs})
    able = {(job, attempt, lane) for job, attempt, lane in await tx.fetch("lock_ready", wanted, tx.partitions)}
    answers = [
        _answer(pick, book, able, tx.now) if pick.session in open_ else Assigned([], lost=pick.jobs) for pick in picks
    ]
    won = [structs.replace(pick, jobs=answer.won) for pick, answer in zip(picks, answers, strict=True) if answer.won]
    specs = await _write(tx, won)
    await _take_limits(tx, won, book)
    return answers, specs


def _answer(pick: Pick, book: _Book, able: set[tuple[bytes, int, int]], now: Micros) -> Assigned:
    """What can be won is won once, however often it was picked."""
    limits = [state for _, state in book.of(pick)]
    free, until = admitted(len(pick.jobs), limits, now)
    won: list[Ready] = []
    lost: list[Ready] = []
    for job in pick.jobs[:free]:
        key = (job.job, job.attempt, job.lane)
        (won if key in able else lost).append(job)
        able.discard(key)
    for state in limits if won else ():
        state.take(len(won), now)
    return Assigned(won, lost, pick.jobs[free:], until)


def _node(picks: Sequence[Pick]) -> bytes | None:
    return picks[0].node if picks else None


async def _write(tx: Tx, picks: Sequence[Pick]) -> dict[bytes, Spec]:
    """pending -> assigned for all jobs of all picks. Where one of them is not pending and ready, the statement is refused, and
    everything is done again, carefully."""
    jobs = sorted((job.job, job.attempt, job.lane, pick.session) for pick in picks for job in pick.jobs)
    if not jobs:
        return {}
    columns = map(list, zip(*jobs, strict=True))
    sessions = sorted({pick.session for pick in picks if pick.jobs})
    rows = await tx.fetch_last("assign_jobs", *columns, tx.now, tx.partitions, sessions, _node(picks))
    if rows is None:
        return {}  # they are read again
    return {row[0]: Spec(row[0], row[1], row[2], row[3]) for row in rows}


async def _lock_limits(tx: Tx, picks: Sequence[Pick]) -> _Book:
    names = sorted({name for pick in picks for name, _ in pick.limits})
    rules = {name: Limit(*rule) for name, *rule in await tx.fetch("lock_limits", names)} if names else {}
    wanted = sorted({limit for pick in picks for limit in pick.limits if limit[0] in rules})
    return _Book(await _limit_states(tx, wanted, rules))


async def _limit_states(
    tx: Tx, limits: Sequence[tuple[str, str]], rules: dict[str, Limit]
) -> dict[tuple[str, str], LimitState]:
    if not limits:
        return {}
    rows = await tx.fetch("limit_states", [name for name, _ in limits], [key for _, key in limits])
    return {(name, key): LimitState(rules.get(name, Limit()), held, at) for name, key, held, at in rows}


async def _take_limits(tx: Tx, won: Sequence[Pick], book: _Book) -> None:
    held = [(job.job, *limit) for pick in won for limit, _ in book.of(pick) for job in pick.jobs]
    if not held:
        return
    await tx.fetch("insert_held", *map(list, zip(*held, strict=True)))
    used = {limit: state for pick in won for limit, state in book.of(pick) if state.rule.rate is not None}
    if used:
        names, keys = [name for name, _ in used], [key for _, key in used]
        await tx.fetch("put_limit_states", names, keys, [state.next_free_at for state in used.values()])


async def read_limit_uses(tx: Tx, limits: Sequence[tuple[str, str]]) -> list[LimitUse]:
    rules = {name: Limit(*rule) for name, *rule in await tx.fetch("list_limits")}
    states = await _limit_states(tx, limits, rules)
    return [states[limit].use(tx.now) for limit in limits]
