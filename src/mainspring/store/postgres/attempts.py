"""The end of attempts (see `store.contract.Attempts`)."""

from collections.abc import Sequence

from mainspring.core.lifecycle import LIVE, State
from mainspring.store.contract import Settlement
from mainspring.store.postgres.changes import Changes, lock_rows, unlock
from mainspring.store.postgres.database import Tx
from mainspring.store.postgres.errors import LostRaceError
from mainspring.store.rows import NO_RESULT, count_settled, ending_of
from mainspring.wire import Progress


async def settle_attempts(tx: Tx, session: bytes, settlements: Sequence[Settlement]) -> list[bool]:
    tx.topics.add("settled")
    completed = [s for s in settlements if s.state == State.COMPLETED]
    if tx.tries:
        completed = await _current(tx, session, completed)
    if completed:
        await _complete(tx, session, completed)
    done = {id(s) for s in completed}
    others = [(session, s) for s in settlements if s.state != State.COMPLETED]
    if others:
        done |= await _settle(tx, others)
    return [id(s) in done for s in settlements]


async def _complete(tx: Tx, session: bytes, completed: list[Settlement]) -> None:
    """Successes, as one statement for all of them; from the start again, carefully, if one was not current."""
    completed = sorted(completed, key=lambda s: s.job)
    ids, attempts = [s.job for s in completed], [s.attempt for s in completed]
    given = [s for s in completed if s.result is not None or s.outputs is not None]
    results = ([s.job for s in given], [s.result or NO_RESULT for s in given])
    kept = ([s.outputs for s in given], [s.expires_at for s in given])
    usages = [s.usage for s in completed]
    ((ended, done),) = await tx.fetch("complete_jobs", session, ids, attempts, tx.now, usages, *results, *kept)
    if not ended == done == len(ids):
        raise LostRaceError
    await unlock(tx, [row[0] for row in await tx.fetch("release_ended", ids)])


async def _current(tx: Tx, session: bytes, completed: list[Settlement]) -> list[Settlement]:
    """Those that are live in this session with that attempt, each once."""
    rows = await tx.fetch("current_live", session, [s.job for s in completed]) if completed else []
    live = {(job, attempt) for job, attempt in rows}
    current = {s.job: s for s in reversed(completed) if (s.job, s.attempt) in live}
    return list(current.values())


async def _settle(tx: Tx, settlements: Sequence[tuple[bytes, Settlement]]) -> set[int]:
    """Attempts that did not simply succeed, each with its session; the identities of those that were current."""
    first: dict[bytes, tuple[bytes, Settlement]] = {}
    for session, settlement in settlements:
        first.setdefault(settlement.job, (session, settlement))
    ordered = [first[job] for job in sorted(first)]
    keys = ([session for session, _ in ordered], [s.job for _, s in ordered], [s.attempt for _, s in ordered])
    ended = {row[0] for row in await tx.fetch("end_live", *keys)}
    rows = await lock_rows(tx, ended)
    asked = dict(await tx.fetch("cancel_reasons", sorted(ended))) if any(r.cancelling for r in rows.values()) else {}
    changes, settled = Changes(tx), []
    for _, s in ordered:
        row = rows.get(s.job)
        if row is None or row.attempt != s.attempt or row.state not in LIVE:
            continue
        settled.append(s)
        count_settled(row, s)
        ending = ending_of(row, s, asked.get(s.job))
        if ending is not None:
            changes.end(row, *ending)
        else:
            changes.requeue(row, s.due_at if s.due_at is not None else tx.now)
    if settled:
        await tx.fetch("release_live", [s.job for s in settled])
        await _insert_failures(tx, settled)
        await changes.write()
    return {id(s) for s in settled}


async def _insert_failures(tx: Tx, settlements: Sequence[Settlement]) -> None:
    rows = [
        (s.job, s.attempt, s.usage, *map(_storable, (f.reason, f.type, f.message, f.traceback)))
        for s in settlements
        if (f := s.failure) is not None
    ]
    if rows:
        await tx.fetch("insert_failures", *map(list, zip(*rows, strict=True)), tx.now)


def _storable(text: str) -> str:
    """PostgreSQL has no NUL in texts, but an exception's message may have."""
    return str(text).replace("\0", "\N{REPLACEMENT CHARACTER}")


async def mark_running(tx: Tx, attempts: Sequence[tuple[bytes, int]], progress: Sequence[Progress]) -> None:
    """Who has something to say is locked first, together with the others: one order for all."""
    ordered, live = sorted(attempts), set[tuple[bytes, int]]()
    if progress:
        ids = sorted({job for job, _ in attempts} | {said.job for said in progress})
        live = {(job, attempt) for job, attempt in await tx.fetch("lock_live", ids)}
    if ordered:
        await tx.fetch("mark_running", [job for job, _ in ordered], [attempt for _, attempt in ordered])
    last = {said.job: said for said in progress if (said.job, said.attempt) in live}
    rows = [(job, said.attempt, said.percent, _storable(said.message)) for job, said in sorted(last.items())]
    if rows:
        await tx.fetch("put_progress", *map(list, zip(*rows, strict=True)), tx.now)


async def read_progress(tx: Tx, ids: Sequence[bytes]) -> list[Progress | None]:
    found = {row[0]: Progress(*row) for row in await tx.fetch("read_progress", ids)}
    return [found.get(id_) for id_ in ids]


async def rescue_attempts(tx: Tx, limit: int) -> int:
    lost = await tx.fetch("lost_attempts", limit)
    if lost:
        settlements = [Settlement(job, attempt, State.PENDING, counts="loss") for _, job, attempt in lost]
        await _settle(tx, [(row[0], s) for row, s in zip(lost, settlements, strict=True)])
        tx.topics.add("settled")  # what they held of limits is free
    return len(lost)


async def list_cancelling(tx: Tx, session: bytes) -> list[bytes]:
    return [row[0] for row in await tx.fetch("list_cancelling", session)]
