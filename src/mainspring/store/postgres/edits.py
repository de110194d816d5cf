"""Jobs that wait are changed, ended ones replayed (see `store.contract.Jobs.change_jobs`).

All of it under the locks of the jobs. A job that changes leaves `ready` and comes back, so whoever is about to assign it finds its
row gone and looks again: nobody starts it with what it was before.
"""

from collections.abc import Sequence

from mainspring.core.lifecycle import State
from mainspring.core.partition import partition_of
from mainspring.core.timer import Micros
from mainspring.store.contract import Change
from mainspring.store.postgres.changes import Changes, drop_waiting, lock_rows
from mainspring.store.postgres.database import Tx
from mainspring.store.postgres.insert import put_lanes
from mainspring.store.rows import Row, change_row, refused_change

Edit = tuple[Row, Change]


async def change_jobs(tx: Tx, changes: Sequence[Change]) -> list[str | None]:
    rows = await lock_rows(tx, {change.job for change in changes})
    answers: dict[bytes, str] = {}
    edits: list[Edit] = []
    for change in changes:
        if (row := rows.get(change.job)) is None:
            continue
        if (refused := refused_change(row, change)) is not None:
            answers[change.job] = refused
        else:
            edits.append((row, change))
    if edits:
        await _edit(tx, sorted(edits, key=lambda edit: edit[0].id))
        answers.update((row.id, State.PENDING) for row, _ in edits)
    return [answers.get(change.job) for change in changes]


async def _edit(tx: Tx, edits: Sequence[Edit]) -> None:
    await drop_waiting(tx, [row for row, _ in edits])
    await _drop_finished(tx, [row for row, change in edits if change.replay])
    start_by = {row.id: row.options.start_by for row, _ in edits}
    for row, change in edits:
        change_row(row, change, tx.now)
    await _write_lanes(tx, edits)
    await _write_specs(tx, edits)
    await _move_expiries(tx, [row for row, _ in edits if row.options.start_by != start_by[row.id]], start_by)
    requeued = Changes(tx)
    for row, _ in edits:
        requeued.requeue(row, row.due_at)
    await requeued.write()
    replayed = [(row.id, row.options.schedule) for row, change in edits if change.replay and row.options.schedule]
    if replayed:
        await tx.fetch("insert_actives", *map(list, zip(*replayed, strict=True)))


async def _drop_finished(tx: Tx, rows: Sequence[Row]) -> None:
    if rows:
        places = ([row.tenant for row in rows], [row.state for row in rows], [row.finished_at for row in rows])
        await tx.fetch("delete_finished", *places, [row.id for row in rows])


async def _write_lanes(tx: Tx, edits: Sequence[Edit]) -> None:
    moved = [(row.id, row.lane, lane.queue, lane.kind) for row, change in edits if (lane := change.lane)]
    if moved:
        lanes = {lane.number(): lane for _, change in edits if (lane := change.lane)}
        await put_lanes(tx, list(lanes.values()))
        await tx.fetch("change_lanes", *map(list, zip(*moved, strict=True)))


async def _write_specs(tx: Tx, edits: Sequence[Edit]) -> None:
    said = [
        (row.id, change.arguments, change.options)
        for row, change in edits
        if change.arguments is not None or change.options is not None
    ]
    if said:
        await tx.fetch("change_specs", *map(list, zip(*said, strict=True)))


async def _move_expiries(tx: Tx, rows: Sequence[Row], before: dict[bytes, Micros | None]) -> None:
    """Jobs that must start by another time than before. Whose time had come has no row any more."""
    partitions = {row.id: partition_of(row.id, tx.partitions) for row in rows}
    old = [(partitions[row.id], at, row.id) for row in rows if (at := before[row.id]) is not None]
    if old:
        await tx.fetch("delete_expiries", *map(list, zip(*old, strict=True)))
    new = [(partitions[row.id], at, row.id) for row in rows if (at := row.options.start_by) is not None]
    if new:
        await tx.fetch("insert_expiry", *map(list, zip(*new, strict=True)))
        tx.due(min(at for _, at, _ in new))
