"""The end of attempts (see `store.contract.Attempts`)."""

from collections.abc import Sequence

from mainspring.core.lifecycle import LIVE, State
from mainspring.store.contract import Settlement
from mainspring.store.rows import NO_RESULT, count_settled, ending_of
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.jobs import Array, array, end_row, read_row, requeue, unlock
from mainspring.store.sqlite.writer import Tx
from mainspring.wire import Progress


def settle_attempts(tx: Tx, session: bytes, settlements: Sequence[Settlement]) -> list[bool]:
    completed = [s for s in settlements if s.state == State.COMPLETED]
    tx.topics.add("settled")
    if not _complete(tx, session, completed):
        tx.execute("rollback to operation")
        completed = _current(tx, session, completed)
        _complete(tx, session, completed)
    elif len(completed) == len(settlements):
        return [True] * len(settlements)
    done = {id(s) for s in completed}
    done.update(id(s) for s in settlements if s.state != State.COMPLETED and _settle(tx, session, s))
    return [id(s) in done for s in settlements]


def _complete(tx: Tx, session: bytes, completed: list[Settlement]) -> bool:
    """Successes, as a few statements for all of them; False, with some written, if one was not current."""
    by_attempt: dict[int, list[Settlement]] = {}
    for settlement in completed:
        by_attempt.setdefault(settlement.attempt, []).append(settlement)
    for attempt, own in by_attempt.items():
        ids = array([s.job for s in own])
        tx.execute(Q["end_live"], (ids, session, attempt))
        ended = tx.connection.changes()
        if ended != len(own) or _end_jobs(tx, own, attempt) != len(own):
            return False
        tx.execute(Q["finish_jobs"], (ids,))
        _release(tx, ids, ended=True)
    _insert_results(tx, completed)
    return True


def _end_jobs(tx: Tx, own: Sequence[Settlement], attempt: int) -> int:
    """How many were. Most have used too little to be kept."""
    ended = 0
    plain = [s.job for s in own if s.usage is None]
    if plain:
        tx.execute(Q["complete_jobs"], (array(plain), tx.now, attempt))
        ended += tx.connection.changes()
    used = [s.job + s.usage for s in own if s.usage is not None]
    if used:
        tx.execute(Q["complete_used_jobs"], (array(used), tx.now, attempt))
        ended += tx.connection.changes()
    return ended


def _insert_results(tx: Tx, completed: Sequence[Settlement]) -> None:
    """Most have nothing beside their result."""
    given = [s for s in completed if s.result is not None or s.outputs is not None]
    plain = [s.job + s.result for s in given if s.result is not None and s.outputs is None and s.expires_at is None]
    if plain:
        tx.execute(Q["insert_results"], (array(plain),))
    if len(plain) < len(given):
        rows = [
            (s.job, s.result or NO_RESULT, s.outputs, s.expires_at)
            for s in given
            if s.outputs is not None or s.expires_at is not None
        ]
        tx.connection.executemany(Q["insert_result"], rows)


def _current(tx: Tx, session: bytes, completed: list[Settlement]) -> list[Settlement]:
    """Those that are live in this session with that attempt, each once."""
    current: dict[bytes, Settlement] = {}
    for s in completed:
        if tx.execute(Q["is_current"], (session, s.job, s.attempt)).fetchone():
            current.setdefault(s.job, s)
    return list(current.values())


def _release(tx: Tx, ids: Array, *, ended: bool) -> None:
    """What goes with a live row, and with a job that has ended. Mostly nothing: one look tells."""
    held, cancel, progress, active, edge = tx.execute(Q["companions"]).fetchone()
    if held:
        tx.execute(Q["release_jobs"], (ids,))
    if cancel:
        tx.execute(Q["release_cancels"], (ids,))
    if progress:
        tx.execute(Q["release_progress"], (ids,))
    if ended and active:
        tx.execute(Q["release_active"], (ids,))
    if ended and edge:
        unlock(tx, ids)


def _settle(tx: Tx, session: bytes, settlement: Settlement) -> bool:
    """One attempt that did not simply succeed."""
    job, attempt = settlement.job, settlement.attempt
    ids = array([job])
    tx.execute(Q["end_live"], (ids, session, attempt))
    if tx.connection.changes() != 1:
        return False
    row = read_row(tx, job)
    if row is None or row.attempt != attempt or row.state not in LIVE:
        return False
    asked = tx.execute(Q["cancel_reason"], (job,)).get if row.cancelling else None
    _release(tx, ids, ended=False)
    if settlement.failure is not None:
        f = settlement.failure
        said = (f.reason, f.type, f.message, f.traceback)
        tx.execute(Q["insert_failure"], (job, attempt, tx.now, settlement.usage, *said))
    count_settled(row, settlement)
    ending = ending_of(row, settlement, asked)
    if ending is not None:
        end_row(tx, job, row, *ending)
    else:
        requeue(tx, job, row, settlement.due_at if settlement.due_at is not None else tx.now)
    return True


def mark_running(tx: Tx, attempts: Sequence[tuple[bytes, int]], progress: Sequence[Progress]) -> None:
    tx.connection.executemany(Q["mark_running"], attempts)
    said = [(p.job, p.attempt, p.percent, p.message, tx.now) for p in progress]
    tx.connection.executemany(Q["put_progress"], said)


def read_progress(connection: Reader, ids: Sequence[bytes]) -> list[Progress | None]:
    found = {row[0]: Progress(*row) for row in connection.execute(Q["read_progress"], (array(ids),))}
    return [found.get(id_) for id_ in ids]


def rescue_attempts(tx: Tx, limit: int) -> int:
    lost = tx.execute(Q["lost_attempts"], (limit,)).fetchall()
    for session, job, attempt in lost:
        _settle(tx, session, Settlement(job, attempt, State.PENDING, counts="loss"))
    if lost:
        tx.topics.add("settled")  # what they held of limits is free
    return len(lost)


def list_cancelling(connection: Reader, session: bytes) -> list[bytes]:
    return [row[0] for row in connection.execute(Q["list_cancelling"], (session,))]
