"""A worker's life: pulling, reporting, draining, losing its session."""

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execute.harness import MemoryLink, registry_of, working
from mainspring.errors import InvalidError, NotRunningError
from mainspring.execute import targets
from mainspring.execute.hooks import Hooks
from mainspring.execute.registry import Registry
from mainspring.execute.worker import Worker
from mainspring.wire import Assignment, OutcomeType


async def echo(value: int) -> int:
    return value


async def test_it_registers_what_it_is() -> None:
    link = MemoryLink()
    async with working(registry_of(echo), link, name="w1", slots=3, labels=frozenset({"gpu"})) as worker:
        await link.run("echo", {"value": 1})
        assert worker.alive()
        assert worker.session == b"session-1"
    (info,) = link.infos
    assert (info.name, info.slots, info.kinds, info.labels) == ("w1", 3, frozenset({"echo"}), frozenset({"gpu"}))
    assert link.ended == [b"session-1"]
    assert not worker.alive()
    assert worker.session is None


@pytest.mark.parametrize("field", ["slots", "threads", "processes"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "8"])
def test_sizes_are_checked(field: str, value: Any) -> None:
    with pytest.raises(InvalidError, match=f"^{field}: "):
        Worker(Registry(), MemoryLink(), **{field: value})


async def test_outcomes_of_one_moment_travel_in_one_report() -> None:
    link = MemoryLink()
    jobs = [link.submit("echo", {"value": n}) for n in range(100)]
    async with working(registry_of(echo), link, slots=100):
        results = [(await link.outcome(job)).result for job in jobs]
    assert results == [str(n).encode() for n in range(100)]
    assert len([report for report in link.reports if report.outcomes]) == 1


async def test_outcomes_gather_while_a_report_is_under_way() -> None:
    link = MemoryLink()
    link.report_gate.clear()
    async with working(registry_of(echo), link, slots=4, heartbeat_s=60.0):
        first = link.submit("echo", {"value": 0})
        await link.called["report"].wait()
        jobs = [link.submit("echo", {"value": n}) for n in range(20)]
        while len(link.pulls) < 7:
            link.called["pull"].clear()
            await link.called["pull"].wait()
        link.report_gate.set()
        for job in (first, *jobs):
            await link.outcome(job)
    assert len([report for report in link.reports if report.outcomes]) <= 3


async def test_pull_numbers_rise_and_are_repeated_after_an_error() -> None:
    link = MemoryLink()
    link.errors["pull"] = [ConnectionError("1"), ConnectionError("2")]
    link.errors["answer"] = [OSError("the answer is lost")]
    link.errors["report"] = [ConnectionError("3")]
    async with working(registry_of(echo), link):
        for n in range(3):
            assert (await link.run("echo", {"value": n})).result == str(n).encode()
    numbers = [number for _, number, _ in link.pulls]
    assert numbers[:4] == [1, 1, 1, 1]
    assert numbers == sorted(numbers)
    assert len({(number, free) for _, number, free in link.pulls}) == len(set(numbers))


async def test_registering_is_tried_again() -> None:
    link = MemoryLink()
    link.errors["register"] = [ConnectionError(), ConnectionError()]
    async with working(registry_of(echo), link):
        assert (await link.run("echo", {"value": 1})).result == b"1"


async def test_a_worker_that_cannot_register_can_be_stopped() -> None:
    link = MemoryLink()
    link.errors["register"] = [ConnectionError()] * 100_000
    async with working(registry_of(echo), link):
        await link.called["register"].wait()
    assert link.infos == []


async def test_jobs_run_on_while_the_link_is_broken() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def job() -> int:
        begun.set()
        await gate.wait()
        return 1

    link = MemoryLink()
    async with working(registry_of(job), link):
        id_ = link.submit("job")
        await begun.wait()
        link.errors["report"] = [ConnectionError()] * 5
        gate.set()
        assert (await link.outcome(id_)).result == b"1"
    assert link.errors["report"] == []


async def test_long_attempts_are_reported_as_running() -> None:
    gate = asyncio.Event()

    async def job() -> None:
        await gate.wait()

    link = MemoryLink()
    async with working(registry_of(job), link):
        id_ = link.submit("job")
        while not any((id_, 1) in (report.running or ()) for report in link.reports):
            link.called["report"].clear()
            await link.called["report"].wait()
        gate.set()
        await link.outcome(id_)


async def test_an_ended_session_is_left_and_a_new_one_registered() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    link = MemoryLink()
    async with working(registry_of(hang, echo), link) as worker:
        lost = link.submit("hang")
        await begun.wait()
        link.end_session(b"session-1")
        await cancelled.wait()
        assert (await link.run("echo", {"value": 1})).result == b"1"
        assert worker.session == b"session-2"
        assert not link.has_outcome(lost)
    assert next(number for session, number, _ in link.pulls if session == b"session-2") == 1
    assert link.ended == [b"session-2"]


async def test_outcomes_of_an_ended_session_are_dropped() -> None:
    link = MemoryLink()
    link.report_gate.clear()
    async with working(registry_of(echo), link):
        lost = link.submit("echo", {"value": 1})
        await link.called["report"].wait()
        link.end_session(b"session-1")
        link.report_gate.set()
        assert (await link.run("echo", {"value": 2})).result == b"2"
        assert not link.has_outcome(lost)


async def test_a_thread_of_an_ended_session_keeps_its_slot() -> None:
    begun, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hang() -> None:
        loop.call_soon_threadsafe(begun.set)
        gate.wait()

    link = MemoryLink()
    async with working(registry_of(hang, echo), link, slots=2, grace_s=5.0) as worker:
        link.submit("hang")
        await begun.wait()
        link.end_session(b"session-1")
        assert (await link.run("echo", {"value": 1})).result == b"1"
        assert worker.busy == 1
        assert {free for session, _, free in link.pulls if session == b"session-2"} == {1}
        gate.set()
    assert worker.busy == 0


async def test_stop_waits_for_what_runs() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def job() -> int:
        begun.set()
        await gate.wait()
        return 1

    link = MemoryLink()
    async with working(registry_of(job, echo), link, grace_s=10.0) as worker:
        id_ = link.submit("job")
        await begun.wait()
        stopping = asyncio.ensure_future(worker.stop())
        await asyncio.sleep(0)
        late = link.submit("echo", {"value": 1})
        gate.set()
        await stopping
    assert (await link.outcome(id_)).result == b"1"
    assert (await link.outcome(late)).type is OutcomeType.RETURNED  # by a pull that was under way
    assert link.ended == [b"session-1"]


async def test_stop_hands_back_what_does_not_end() -> None:
    begun: list[str] = []
    all_begun = asyncio.Event()
    gate = threading.Event()
    loop = asyncio.get_running_loop()

    def note(name: str) -> None:
        begun.append(name)
        if len(begun) == 3:
            all_begun.set()

    async def hang() -> None:
        note("hang")
        await asyncio.Event().wait()

    async def stubborn() -> None:
        note("stubborn")
        while not gate.is_set():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    def thread() -> None:
        loop.call_soon_threadsafe(note, "thread")
        gate.wait()

    link = MemoryLink()
    async with working(registry_of(hang, stubborn, thread), link, grace_s=0.01) as worker:
        jobs = [link.submit(kind) for kind in ("hang", "stubborn", "thread")]
        await all_begun.wait()
        await worker.stop()
        for job in jobs:
            assert (await link.outcome(job)).type is OutcomeType.RETURNED
        assert worker.busy == 2  # told as it is: these two could not be stopped
        gate.set()
        leftover = [task for task in asyncio.all_tasks() if task.get_name() == "stubborn"]
        for task in leftover:
            task.cancel()
        await asyncio.wait(leftover)
    assert link.ended == [b"session-1"]


async def test_stop_gives_up_on_a_node_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.execute.worker._FLUSH_S", 0.01)
    link = MemoryLink()
    link.report_gate.clear()
    async with working(registry_of(echo), link) as worker:
        id_ = link.submit("echo", {"value": 1})
        await link.called["report"].wait()
        await worker.stop()
    assert not link.has_outcome(id_)


async def test_stop_when_the_session_ends_meanwhile() -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    link = MemoryLink()
    async with working(registry_of(hang), link, grace_s=60.0) as worker:
        link.submit("hang")
        await begun.wait()
        stopping = asyncio.ensure_future(worker.stop())
        await asyncio.sleep(0)
        link.end_session(b"session-1")
        await stopping
    assert link.ended == []
    assert len(link.infos) == 1


async def test_more_than_was_asked_for_is_handed_back() -> None:
    class Generous(MemoryLink):
        async def pull(self, session: bytes, number: int, free: int) -> list[Assignment]:
            return await super().pull(session, number, free + 2)

    gate = asyncio.Event()

    async def job() -> None:
        await gate.wait()

    link = Generous()
    jobs = [link.submit("job") for _ in range(3)]
    async with working(registry_of(job), link, slots=1, grace_s=5.0) as worker:
        assert (await link.outcome(jobs[1])).type is OutcomeType.RETURNED
        assert (await link.outcome(jobs[2])).type is OutcomeType.RETURNED
        assert worker.busy == 1
        gate.set()
        assert (await link.outcome(jobs[0])).type is OutcomeType.COMPLETED


async def test_start_and_stop_hooks_frame_the_work() -> None:
    log: list[str] = []

    async def opened() -> None:
        log.append("start")

    def broken() -> None:
        raise RuntimeError("logged, not fatal")

    link = MemoryLink()
    hooks = Hooks(on_start=[opened, lambda: log.append("start 2")], on_stop=[lambda: log.append("stop"), broken])
    async with working(registry_of(echo), link, hooks=hooks):
        await link.run("echo", {"value": 1})
    assert log == ["start", "start 2", "stop"]


async def test_a_failing_start_hook_stops_the_worker() -> None:
    def broken() -> None:
        raise RuntimeError("no database")

    link = MemoryLink()
    worker = Worker(registry_of(echo), link, hooks=Hooks(on_start=[broken]))
    with pytest.raises(RuntimeError, match="no database"):
        await worker.run()
    await worker.stop()
    assert link.infos == []


async def test_a_worker_runs_once() -> None:
    link = MemoryLink()
    worker = Worker(registry_of(echo), link)
    await worker.stop()
    await worker.run()
    with pytest.raises(NotRunningError, match="runs once"):
        await worker.run()


async def test_a_worker_does_not_start_in_a_child_that_loads_the_main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "loading_main", True)
    with pytest.raises(NotRunningError, match="__main__"):
        await Worker(registry_of(echo), MemoryLink()).run()


async def test_a_cancelled_run_leaves_no_job_behind() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    link = MemoryLink()
    worker = Worker(registry_of(hang), link)
    running = asyncio.ensure_future(worker.run())
    link.submit("hang")
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await cancelled.wait()
    assert not worker.alive()


_step = st.tuples(st.sampled_from(["quick", "slow", "thread"]), st.sampled_from([None, 0.001, 60.0]))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.lists(_step, max_size=20), st.integers(0, 3), st.booleans())
def test_capacity_is_never_exceeded(slots: int, jobs: list[tuple[str, float | None]], errors: int, end: bool) -> None:
    """Whatever the mix of pools, timeouts, link errors and lost sessions: never more functions run than slots."""
    lock = threading.Lock()
    now_running = most_running = 0

    def enter() -> None:
        nonlocal now_running, most_running
        with lock:
            now_running += 1
            most_running = max(most_running, now_running)

    def leave() -> None:
        nonlocal now_running
        with lock:
            now_running -= 1

    async def quick() -> None:
        enter()
        leave()

    async def slow() -> None:
        enter()
        try:
            await asyncio.sleep(0.002)
        finally:
            leave()

    def thread() -> None:
        enter()
        threading.Event().wait(0.002)
        leave()

    async def scenario() -> None:
        link = MemoryLink()
        link.errors["pull"] = [ConnectionError() for _ in range(errors)]
        ids = [link.submit(kind, timeout_s=timeout_s) for kind, timeout_s in jobs]
        async with working(registry_of(quick, slow, thread), link, slots=slots, grace_s=5.0, stop_grace_s=5.0):
            if end:
                await link.called["pull"].wait()
                link.end_session(b"session-1")
            else:
                for id_ in ids:
                    await link.outcome(id_)
        assert all(free <= slots for _, _, free in link.pulls)

    asyncio.run(scenario())
    assert most_running <= slots
    assert now_running == 0
