"""Why a job is not running, in words: from `Facts` to sentences. Pure.

The first cause is the one that matters most. Each has a code for programs and a sentence for people that also says what to do,
where something can be done.
"""

from collections.abc import Iterator

from msgspec import Struct

from mainspring.core.lifecycle import ENDED, LIVE, MAX_LOSSES, State
from mainspring.core.partition import format_id
from mainspring.core.timer import SECOND
from mainspring.core.words import count, duration, listed, moment_and_relative, needs, relative, shortened
from mainspring.dispatch.matcher import Seat
from mainspring.execute.types.catalogue import is_type
from mainspring.store.contract import SessionRecord
from mainspring.verbs.facts import MOST_AHEAD, Facts, LimitFact

_REASONS = {
    "error": "it raised, and no retry was left",
    "timeout": "it ran longer than its timeout, and no retry was left",
    "arguments": "its stored arguments do not fit the function any more",
    "unknown_kind": "its worker did not know the kind",
    "secrets": "a secret that it needs is missing, or cannot be opened",
    "result": "it returned something that cannot be stored",
    "killed": "its process died",
    "lost": f"its worker died {MAX_LOSSES} times while it ran",
    "requested": "somebody cancelled it",
    "raised": "it cancelled itself",
    "expired": "it had not started by its start_by time",
    "overlap": "a newer occurrence of its schedule replaced it",
}


class Cause(Struct, frozen=True):
    code: str
    text: str


def causes(facts: Facts) -> list[Cause]:
    """At least one."""
    state = facts.record.state
    if state in ENDED:
        return list(_ended(facts))
    if state in LIVE:
        return list(_live(facts))
    if state == State.BLOCKED:
        return list(_blocked(facts))
    if state == State.SKIPPED:
        return [Cause("skipped", "It was put aside because of overload; it comes back by itself when the load falls.")]
    return list(_pending(facts))


def _ended(facts: Facts) -> Iterator[Cause]:
    record = facts.record
    when = moment_and_relative(record.finished_at or facts.now, facts.now)
    why = f": {_REASONS.get(record.reason, record.reason)}" if record.reason else ""
    yield Cause(record.state, f"It {_past(record.state)} at {when}{why}.")
    if record.state == State.FAILED:
        yield from _last_error(facts)
        yield Cause("replayable", f"Run it again with `mainspring jobs retry {format_id(record.id)}`.")


def _past(state: str) -> str:
    return {"completed": "completed", "failed": "failed"}.get(state, "was cancelled")


def _live(facts: Facts) -> Iterator[Cause]:
    record, holder = facts.record, facts.holder
    since = moment_and_relative(record.started_at or facts.now, facts.now)
    name = holder.name if holder else "a worker"
    if facts.holder_lives:
        yield Cause("running", f"It is running on worker {name} since {since} (attempt {record.attempt}).")
    else:
        yield Cause(
            "worker_lost",
            f"It was running on worker {name} since {since}, and that worker has not been heard of since; "
            f"{_rescue(facts)}.",
        )
    if record.cancelling:
        yield Cause("cancel_requested", "It was asked to stop, and has not stopped yet.")


def _rescue(facts: Facts) -> str:
    if facts.workers:
        return "another worker takes it over within seconds"
    return f"it is tried again when a worker runs: {_start(facts)}"


def _start(facts: Facts) -> str:
    """How to get a worker that knows its kind."""
    kind = facts.record.kind
    return f"start one with `mainspring worker {f'--types {kind}' if is_type(kind) else 'MODULE:APP'}`"


def _blocked(facts: Facts) -> Iterator[Cause]:
    waiting = [parent for parent in facts.parents if parent.state not in ENDED]
    if not waiting:
        yield Cause("blocked", "It waits for other jobs, all of which have ended: it is about to be unlocked.")
        return
    names = listed((f"{format_id(parent.id)} ({parent.state or 'gone'})" for parent in waiting), 5)
    yield Cause("blocked", f"It waits for {count(len(waiting), 'other job')} to end: {names}.")


def _pending(facts: Facts) -> Iterator[Cause]:
    record = facts.record
    if record.due_at > facts.now:
        yield from _later(facts)
    elif record.attempt and record.failures:
        yield from _last_error(facts)
    if record.options.start_by is not None:
        by = moment_and_relative(record.options.start_by, facts.now)
        yield Cause("start_by", f"If it has not started by {by}, it is cancelled.")
    obstacles = list(_obstacles(facts))
    yield from obstacles
    if not obstacles and record.due_at <= facts.now:
        yield Cause(
            "due", f"It has been due since {moment_and_relative(record.due_at, facts.now)}; it starts any moment."
        )


def _later(facts: Facts) -> Iterator[Cause]:
    record = facts.record
    due = moment_and_relative(record.due_at, facts.now)
    if record.failures and facts.failures:
        yield Cause("retrying", f"Attempt {record.attempt} failed; it is tried again at {due}.")
        yield from _last_error(facts)
    elif record.attempt:
        yield Cause("snoozed", f"It asked to be run again later: at {due}.")
    else:
        yield Cause("future", f"It is not due yet: it may start at {due}.")


def _last_error(facts: Facts) -> Iterator[Cause]:
    if facts.failures:
        last = facts.failures[-1]
        told = shortened(f"{last.failure.type}: {last.failure.message}", 200)
        yield Cause("error", f"Attempt {last.attempt} ended with {told}")


def _obstacles(facts: Facts) -> Iterator[Cause]:
    """What would keep it from starting although it is due."""
    if facts.paused:
        queue = facts.record.queue
        yield Cause(
            "queue_paused", f"Its queue {queue!r} is paused: resume it with `mainspring queues resume {queue}`."
        )
    unserved = _unserved(facts)
    if unserved is not None:
        yield unserved
        return
    for fact in facts.limits:
        yield from _at_limit(facts, fact)
    if facts.record.due_at <= facts.now and facts.lane is not None:
        yield from _in_line(facts, [w for w in facts.workers if _can_run(w, facts)])


def _unserved(facts: Facts) -> Cause | None:
    """Is there no worker that could ever take it?"""
    if not facts.workers:
        gone = " (one stopped without leaving)" if facts.nodes else ""
        return Cause("no_worker", f"No worker is running{gone}: {_start(facts)}.")
    lane = facts.lane
    if lane is None or any(_can_run(worker, facts) for worker in facts.workers):
        return None
    knowing = [worker for worker in facts.workers if worker.info and lane.kind in worker.info.kinds]
    running = listed((worker.name for worker in facts.workers), 5)
    if not knowing and is_type(lane.kind):
        return Cause(
            "unknown_kind", f"No running worker runs the type {lane.kind!r}: {_start(facts)} (running: {running})."
        )
    if not knowing:
        return Cause("unknown_kind", f"No running worker knows the kind {lane.kind!r} (running: {running}).")
    labelled = [worker for worker in knowing if worker.info and lane.labels <= worker.info.labels]
    if not labelled:
        wanted = listed(sorted(lane.labels))
        return Cause(
            "no_label", f"It needs a worker with the labels {wanted}; none of those that know its kind has them."
        )
    return Cause("too_large", f"It needs {needs(lane.resources)}; no running worker is that large.")


def _can_run(worker: SessionRecord, facts: Facts) -> bool:
    return worker.info is not None and facts.lane is not None and Seat(worker.id, worker.info).serves(facts.lane)


def _at_limit(facts: Facts, fact: LimitFact) -> Iterator[Cause]:
    whose = _limited(fact.name)
    if fact.limit.concurrency is not None and fact.use.held >= fact.limit.concurrency:
        yield Cause("concurrency", f"{whose} may run {count(fact.limit.concurrency, 'job')} at once, and does.")
    if fact.use.next_start_at is not None and fact.limit.rate:
        period = duration(fact.limit.burst / fact.limit.rate)
        rate = f"{count(fact.limit.burst, 'job')} per {period}"
        yield Cause(
            "rate", f"{whose} may start {rate}; the next may start {relative(fact.use.next_start_at, facts.now)}."
        )


def _limited(name: str) -> str:
    what, _, rest = name.partition("/")
    return f"The {what} {rest.partition('/')[2] if what == 'queue' else rest!r}"


def _in_line(facts: Facts, able: list[SessionRecord]) -> Iterator[Cause]:
    if facts.ahead:
        many = f"at least {MOST_AHEAD:,} jobs" if facts.ahead >= MOST_AHEAD else count(facts.ahead, "job")
        verb = "comes" if facts.ahead == 1 else "come"
        yield Cause("behind", f"{many} of its kind and queue {verb} before it.".capitalize())
    if able and all(worker.info and worker.live >= worker.info.slots for worker in able):
        slots = sum(worker.info.slots for worker in able if worker.info)
        waited = duration(max(0, facts.now - facts.record.due_at) / SECOND)
        yield Cause(
            "busy",
            f"All {count(slots, 'slot')} of {listed((w.name for w in able), 5)} are taken; it waits since {waited}.",
        )
