"""The end of attempts (see `store.contract.Attempts`)."""

from collections.abc import Sequence

import apsw

from mainspring.core.lifecycle import LIVE, MAX_LOSSES, Reason, State
from mainspring.store.contract import Settlement
from mainspring.store.sqlite.database import Q
from mainspring.store.sqlite.jobs import Row, array, end_row, read_row, requeue, unlock
from mainspring.store.sqlite.writer import Tx


def settle_attempts(tx: Tx, session: bytes, settlements: Sequence[Settlement]) -> list[bool]:
    completed = [s for s in settlements if s.state == State.COMPLETED]
    done = _complete(tx, session, completed)
    for settlement in settlements:
        if settlement.state != State.COMPLETED and _settle(tx, session, settlement):
            done.add((settlement.job, settlement.attempt))
    tx.topics.add("settled")
    return [(s.job, s.attempt) in done for s in settlements]


def _complete(tx: Tx, session: bytes, completed: list[Settlement]) -> set[tuple[bytes, int]]:
    """Successes, as a few statements for all of them: what most attempts end with."""
    by_attempt: dict[int, dict[bytes, Settlement]] = {}
    for settlement in completed:
        by_attempt.setdefault(settlement.attempt, {}).setdefault(settlement.job, settlement)
    done: set[tuple[bytes, int]] = set()
    for attempt, group in by_attempt.items():
        ids = array(group)
        tx.execute("savepoint complete")
        tx.execute(Q["end_live"], (ids, session, attempt))
        if tx.connection.changes() != len(group):
            tx.execute("rollback to complete")
            rows = tx.execute(Q["current_attempts"], (ids, session, attempt))
            group = {row[0]: group[row[0]] for row in rows}
            ids = array(group)
            tx.execute(Q["end_live"], (ids, session, attempt))
        tx.execute("release complete")
        if group:
            _write_completed(tx, ids, attempt, group)
            done.update((job, attempt) for job in group)
    return done


def _write_completed(tx: Tx, ids: apsw.carray, attempt: int, group: dict[bytes, Settlement]) -> None:
    tx.execute(Q["complete_jobs"], (ids, tx.now, attempt))
    tx.execute(Q["finish_jobs"], (ids,))
    _release(tx, ids)
    tx.execute(Q["release_active"], (ids,))
    unlock(tx, ids)
    results = [s.job + s.result for s in group.values() if s.result is not None]
    if results:
        tx.execute(Q["insert_results"], (array(results),))


def _release(tx: Tx, ids: apsw.carray) -> None:
    """A live row's companions."""
    tx.execute(Q["release_jobs"], (ids,))
    tx.execute(Q["release_cancels"], (ids,))


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
    _release(tx, ids)
    if settlement.failure is not None:
        f = settlement.failure
        tx.execute(Q["insert_failure"], (job, attempt, tx.now, f.reason, f.type, f.message, f.traceback))
    row.failures += settlement.counts == "failure"
    row.losses += settlement.counts == "loss"
    _move(tx, job, row, settlement)
    return True


def _move(tx: Tx, job: bytes, row: Row, settlement: Settlement) -> None:
    if settlement.state != State.PENDING:
        end_row(tx, job, row, settlement.state, settlement.reason)
    elif row.cancelling:
        end_row(tx, job, row, State.CANCELLED, Reason.REQUESTED)
    elif settlement.counts == "loss" and row.losses >= MAX_LOSSES:
        end_row(tx, job, row, State.FAILED, Reason.LOST)
    else:
        requeue(tx, job, row, settlement.due_at if settlement.due_at is not None else tx.now)


def mark_running(tx: Tx, attempts: Sequence[tuple[bytes, int]]) -> None:
    tx.connection.executemany(Q["mark_running"], attempts)


def rescue_attempts(tx: Tx, limit: int) -> int:
    lost = tx.execute(Q["lost_attempts"], (limit,)).fetchall()
    for session, job, attempt in lost:
        _settle(tx, session, Settlement(job, attempt, State.PENDING, counts="loss"))
    return len(lost)


def list_cancelling(connection: apsw.Connection, session: bytes) -> list[bytes]:
    return [row[0] for row in connection.execute(Q["list_cancelling"], (session,))]
