"""`mainspring jobs explain`: every sentence, from facts that a test makes up; and the whole way through a store."""

import asyncio
import uuid

import pytest
from msgspec import structs

from cli.harness import NOW, Cli, record
from mainspring import App, Resources
from mainspring.core.job import JobRecord, Limit, Options
from mainspring.core.lane import Lane
from mainspring.core.partition import make_id
from mainspring.core.timer import SECOND
from mainspring.store.contract import AttemptFailure, LimitUse, NodeRecord, SessionRecord
from mainspring.verbs.explaining import causes
from mainspring.verbs.facts import MOST_AHEAD, Facts, LimitFact, Parent, gather
from mainspring.wire import Failure, WorkerInfo

EVERYWHERE = True

NODE = NodeRecord(b"n" * 16, "host-1", NOW - SECOND, NOW + SECOND)
ERROR = AttemptFailure(1, NOW - SECOND, Failure("error", "ValueError", "no\nway"))


def worker(name: str = "w1", live: int = 0, **info: object) -> SessionRecord:
    said = structs.replace(WorkerInfo(name=name, slots=2, kinds=frozenset({"send"})), **info)
    return SessionRecord(name.encode() * 8, NODE.id, name, NOW - SECOND, said, live)


def facts(job: JobRecord, **more: object) -> Facts:
    lane = Lane("default", "mail", "send", labels=job.options.labels, resources=job.options.resources)
    base = Facts(now=NOW, record=job, lane=lane, nodes=[NODE], workers=[worker()])
    return structs.replace(base, **more)


LATER = record(due_at=NOW + 90 * SECOND)
RETRY = record(due_at=NOW + 4 * SECOND, attempt=1, failures=1)
RUNNING = record("running", attempt=2, started_at=NOW - 5 * SECOND)
QUEUE_LIMIT = LimitFact("queue/default/mail", Limit(concurrency=2), LimitUse(2, None))
KIND_RATE = LimitFact("kind/send", Limit(rate=1.0, burst=60), LimitUse(0, NOW + 3 * SECOND))

SENTENCES = {
    "due": (facts(record()), ["due"], "it starts any moment"),
    "future": (facts(LATER), ["future"], "may start at 2030-03-17 17:48:10 UTC (in 1 m 30 s)"),
    "snoozed": (facts(structs.replace(LATER, attempt=1)), ["snoozed"], "asked to be run again later"),
    "retrying": (facts(RETRY, failures=[ERROR]), ["retrying", "error"], "ended with ValueError: no way"),
    "retry is due": (
        facts(structs.replace(RETRY, due_at=NOW), failures=[ERROR]),
        ["error", "due"],
        "Attempt 1 ended with ValueError",
    ),
    "paused": (facts(record(), paused=True), ["queue_paused"], "mainspring queues resume mail"),
    "paused and later": (facts(LATER, paused=True), ["future", "queue_paused"], "is paused"),
    "no worker": (facts(record(), workers=[], nodes=[]), ["no_worker"], "No worker is running: start one"),
    "a dead worker": (facts(record(), workers=[]), ["no_worker"], "one stopped without leaving"),
    "unknown kind": (
        facts(record(), workers=[worker(kinds=frozenset({"other"}))]),
        ["unknown_kind"],
        "No running worker knows the kind 'send' (running: w1)",
    ),
    "label": (facts(record(options=Options(labels=frozenset({"gpu"})))), ["no_label"], "a worker with the labels gpu"),
    "too large": (
        facts(record(options=Options(resources=Resources(cpu=8, memory_mb=64)))),
        ["too_large"],
        "8 CPU cores, 64 MB of memory; no running worker",
    ),
    "concurrency": (facts(record(), limits=[QUEUE_LIMIT]), ["concurrency"], "The queue 'mail' may run 2 jobs at once"),
    "rate": (
        facts(record(), limits=[KIND_RATE]),
        ["rate"],
        "'send' may start 60 jobs per 1 m; the next may start in 3 s",
    ),
    "behind one": (facts(record(), ahead=1), ["behind"], "1 job of its kind and queue comes before it"),
    "behind many": (facts(record(), ahead=MOST_AHEAD), ["behind"], "At least 1,000 jobs of its kind"),
    "busy": (facts(record(), workers=[worker(live=2)]), ["busy"], "All 2 slots of w1 are taken; it waits since 2 s"),
    "start by": (
        facts(record(options=Options(start_by=NOW + 60 * SECOND))),
        ["start_by", "due"],
        "If it has not started by 2030-03-17 17:47:40 UTC (in 1 m), it is cancelled",
    ),
    "blocked": (
        facts(record("blocked"), parents=[Parent(make_id(9, 9, 9), "running"), Parent(make_id(8, 8, 8), "completed")]),
        ["blocked"],
        f"waits for 1 other job to end: {uuid.UUID(bytes=make_id(9, 9, 9))} (running)",
    ),
    "unblocked": (facts(record("blocked")), ["blocked"], "about to be unlocked"),
    "skipped": (facts(record("skipped")), ["skipped"], "because of overload"),
    "running": (
        facts(RUNNING, holder=worker(), holder_lives=True),
        ["running"],
        "running on worker w1 since 2030-03-17 17:46:35 UTC (5 s ago) (attempt 2)",
    ),
    "stopping": (
        facts(structs.replace(RUNNING, cancelling=True), holder=worker(), holder_lives=True),
        ["running", "cancel_requested"],
        "was asked to stop",
    ),
    "worker lost": (facts(RUNNING, holder=worker()), ["worker_lost"], "another worker takes it over"),
    "all lost": (facts(RUNNING, holder=worker(), workers=[]), ["worker_lost"], "tried again when a worker runs"),
    "completed": (
        facts(record("completed", finished_at=NOW)),
        ["completed"],
        "It completed at 2030-03-17 17:46:40 UTC (now).",
    ),
    "failed": (
        facts(record("failed", finished_at=NOW, reason="error"), failures=[ERROR]),
        ["failed", "error", "replayable"],
        "mainspring jobs retry 00000000",
    ),
    "cancelled": (
        facts(record("cancelled", finished_at=NOW, reason="expired")),
        ["cancelled"],
        "It was cancelled at 2030-03-17 17:46:40 UTC (now): it had not started by its start_by time.",
    ),
}


@pytest.mark.parametrize(("known", "codes", "words"), SENTENCES.values(), ids=SENTENCES.keys())
def test_every_cause_has_its_sentence(known: Facts, codes: list[str], words: str) -> None:
    found = causes(known)
    assert [cause.code for cause in found] == codes
    assert words in "\n".join(cause.text for cause in found)


def explained(cli: Cli, job: str) -> list[str]:
    document = cli("jobs", "explain", job, "--json").document
    assert document["id"] == job
    return [cause["code"] for cause in document["causes"]]


def test_a_job_from_submit_to_end(cli: Cli) -> None:
    job = cli("submit", "send", "--args", '{"to": "a"}').out.strip()
    assert explained(cli, job) == ["no_worker"]
    cli("queues", "pause", "mail")
    assert explained(cli, job) == ["queue_paused", "no_worker"]
    assert "is paused" in cli("jobs", "explain", job).out
    cli("queues", "resume", "mail")
    cli.work_off()
    assert explained(cli, job) == ["completed"]
    assert "no job" in cli.fails(1, "jobs", "explain", str(uuid.UUID(bytes=make_id(1, 2, 3))))


def test_facts_of_a_running_store(cli: Cli) -> None:
    """What live workers said of themselves, who has which job, and what a limit counts."""

    async def look(app: App) -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        @app.job(concurrency=1)
        async def slow() -> None:
            begun.set()
            await may_end.wait()

        running = asyncio.create_task(app.run(signals=False, slots=3, labels=["eu"]))
        first, second = await slow.submit(), await slow.submit()
        await begun.wait()
        known = [await gather(app.store, job.key) for job in (first, second)]
        holders = {fact.holder.name for fact in known if fact.holder}
        codes = sorted(causes(fact)[0].code for fact in known)
        (session,) = known[0].workers
        assert codes == ["concurrency", "running"]
        assert holders == {session.name}
        assert session.info is not None
        assert (session.info.slots, session.info.labels, session.live) == (3, frozenset({"eu"}), 1)
        assert known[0].limits[0].use.held == 1
        may_end.set()
        await second.result(timeout=10)
        app.stop()
        await running

    cli.within(look)


def test_only_the_jobs_before_count(cli: Cli) -> None:
    async def look(app: App) -> list[int]:
        from tasks import send  # type: ignore[import-not-found]

        jobs = await app.submit_many(send.job(str(number)) for number in range(5))
        return [(await gather(app.store, job.key)).ahead for job in jobs]

    assert cli.within(look) == [0, 1, 2, 3, 4]
