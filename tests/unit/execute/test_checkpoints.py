"""An attempt goes on from where the one before was, and does not do a step twice: in every pool."""

import asyncio
import inspect
import threading
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from execute import jobs
from execute.harness import MemoryLink, context_of, registry_of, working
from mainspring.core.job import Options
from mainspring.core.objects import checkpoint, step
from mainspring.errors import ConflictError, InvalidError, StoreUnavailableError
from mainspring.execute.context import Context
from mainspring.execute.signals import Snooze
from mainspring.execute.sync_context import SyncContext
from mainspring.wire import Assignment, Outcome, OutcomeType

POOLS = ("async", "thread", "process", "process-async")


def _named(name: str, pool: str) -> tuple[str, Any]:
    """A function of `jobs` for a pool; the async one of the same name where that is meant."""
    full = f"{name}_async" if "async" in pool else name
    return full, registry_of(getattr(jobs, full), pool=pool.partition("-")[0])


async def _again(link: MemoryLink, kind: str, job: bytes, attempt: int, arguments: dict[str, Any]) -> Outcome:
    data = msgspec.json.encode(arguments)
    link.assign(Assignment(job, attempt, "default", "default", kind, data, Options(), 0))
    return await link.outcome(job)


@pytest.mark.parametrize("pool", POOLS)
async def test_the_next_attempt_goes_on_from_the_newest_checkpoint(pool: str) -> None:
    link = MemoryLink()
    kind, registry = _named("count_on", pool)
    async with working(registry, link):
        job = link.submit(kind, {"to": 6})
        failed = (await link.outcome(job)).failure
        assert failed is not None
        assert failed.message == "three"
        assert await link.objects.read(job, checkpoint(1)) == b"3"
        again = await _again(link, kind, job, 7, {"to": 6})
    assert msgspec.json.decode(again.result or b"") == [3, 6]


@pytest.mark.parametrize("pool", POOLS)
async def test_a_step_is_done_once(pool: str, tmp_path: Path) -> None:
    link, log = MemoryLink(), tmp_path / "log"
    kind, registry = _named("two_steps", pool)
    async with working(registry, link):
        job = link.submit(kind, {"log": str(log)})
        assert (await link.outcome(job)).type is OutcomeType.FAILED
        again = await _again(link, kind, job, 2, {"log": str(log)})
    assert log.read_text().split() == ["first", "second"]
    assert msgspec.json.decode(again.result or b"") == [1, 2]


async def test_what_the_attempt_finds_is_of_the_latest_attempt_before_it() -> None:
    async def job(context: Context) -> Any:
        return context.resume

    link = MemoryLink()
    async with working(registry_of(job), link):
        id_ = link.submit("job")
        assert (await link.outcome(id_)).result is None
        for attempt in (999_999, 1_000_000, 3):
            await link.objects.put(id_, checkpoint(attempt), b'{"at":%d}' % attempt)
        assert (await _again(link, "job", id_, 1_000_001, {})).result == b'{"at":1000000}'


async def test_a_first_attempt_asks_for_nothing() -> None:
    class Silent(MemoryLink):
        async def find_objects(self, *_: object) -> Any:
            raise AssertionError

    async def job(context: Context) -> int:
        return await context.step("s", lambda: 1)

    link = Silent()
    async with working(registry_of(job), link):
        assert (await link.run("job")).result == b"1"


async def test_an_attempt_waits_for_its_state_and_a_cancel_ends_the_waiting() -> None:
    asked = asyncio.Event()

    class Away(MemoryLink):
        async def find_objects(self, *_: object) -> Any:
            asked.set()
            raise StoreUnavailableError("not now")

    async def never(context: Context) -> None:
        raise AssertionError

    def never_thread(context: Context) -> None:
        raise AssertionError

    registry = registry_of(never, never_thread, jobs.count_on)
    for kind in ("never", "never_thread"):
        link = Away()
        async with working(registry, link):
            id_ = b"\1" * 16
            link.assign(Assignment(id_, 2, "default", "default", kind, b"{}", Options(), 0))
            await asked.wait()
            await link.reported(lambda report: bool(report.running))
            link.cancel(id_)
            assert (await link.outcome(id_)).type is OutcomeType.CANCELLED


async def test_a_checkpoint_survives_a_snooze() -> None:
    async def job(context: Context) -> list[int]:
        seen: list[int] = context.resume or []
        if len(seen) == 3:
            return seen
        await context.checkpoint([*seen, context.attempt])
        raise Snooze(0)

    link = MemoryLink()
    async with working(registry_of(job), link):
        id_ = link.submit("job")
        assert (await link.outcome(id_)).type is OutcomeType.SNOOZED
        for attempt in (2, 3):
            assert (await _again(link, "job", id_, attempt, {})).type is OutcomeType.SNOOZED
        assert (await _again(link, "job", id_, 4, {})).result == b"[1,2,3]"


@pytest.mark.parametrize("pool", ["thread", "process"])
async def test_what_an_interval_holds_back_is_saved_when_the_function_ends(pool: str) -> None:
    link = MemoryLink()
    async with working(registry_of(jobs.hold_back, pool=pool), link):
        id_ = link.submit("hold_back")
        assert (await link.outcome(id_)).type is OutcomeType.COMPLETED
    assert await link.objects.read(id_, checkpoint(1)) == b"4"


@pytest.mark.parametrize("pool", ["async", "thread"])
async def test_a_worker_that_stops_saves_what_an_interval_holds_back(pool: str) -> None:
    begun = threading.Event()

    async def job(context: Context) -> None:
        await context.checkpoint("first", every="1h")
        await context.checkpoint("newest", every="1h")
        begun.set()
        await asyncio.Event().wait()

    def job_thread(context: Context) -> None:
        context.sync.checkpoint("first", every="1h")
        context.sync.checkpoint("newest", every="1h")
        begun.set()
        asyncio.run(context.wait_cancelled())
        context.check_cancelled()

    link = MemoryLink()
    function = job if pool == "async" else job_thread
    async with working(registry_of(function), link, stop_grace_s=20) as worker:
        id_ = link.submit(function.__name__)
        await asyncio.to_thread(begun.wait, 20)
        assert await link.objects.read(id_, checkpoint(1)) == b'"first"'
        await worker.stop()
        assert (await link.outcome(id_)).type is OutcomeType.RETURNED
    assert await link.objects.read(id_, checkpoint(1)) == b'"newest"'


async def test_a_stop_while_a_state_is_being_saved_loses_neither_that_nor_the_one_before() -> None:
    class Stuck(MemoryLink):
        stuck = asyncio.Event()

        async def put_object(self, session: bytes, job: bytes, attempt: int, name: str, data: bytes | Path) -> None:
            if data == b'"newest"' and not self.stuck.is_set():
                self.stuck.set()
                await asyncio.Event().wait()
            await super().put_object(session, job, attempt, name, data)

    async def job(context: Context) -> None:
        await context.checkpoint("first", every="1h")
        await context.checkpoint("held", every="1h")
        await context.checkpoint("newest")

    link = Stuck()
    async with working(registry_of(job), link, stop_grace_s=20) as worker:
        id_ = link.submit("job")
        await link.stuck.wait()
        await worker.stop()
        assert (await link.outcome(id_)).type is OutcomeType.RETURNED
    assert await link.objects.read(id_, checkpoint(1)) == b'"newest"'


def _context(attempt: int = 1, before: Context | None = None) -> Context:
    """Of an attempt at the same job as another one's, where that is given."""
    assignment = Assignment(b"\1" * 16, attempt, "acme", "mail", "send", b"{}", Options(), 0)
    return context_of(assignment, objects=None if before is None else before._services.objects)


@pytest.mark.parametrize("state", [float("nan"), 2**70, object(), {"a": {1, object()}}])
async def test_a_state_without_a_json_form_is_refused(state: object) -> None:
    with pytest.raises(InvalidError, match=r"^state: "):
        await _context().checkpoint(state)


async def test_a_step_comes_back_as_its_function_is_annotated() -> None:
    async def tomorrow(day: date) -> date:
        return date(day.year, day.month, day.day + 1)

    def pair() -> Any:
        return (1, 2)

    def nothing() -> Any:
        made.append("nothing")

    made: list[str] = []
    first = _context()
    assert await first.step("tomorrow", tomorrow, date(2030, 1, 1)) == date(2030, 1, 2)
    assert await first.step("pair", pair) == [1, 2]  # as every later attempt will see it
    assert await first.step("nothing", nothing) is None
    second = _context(2, first)
    assert await second.step("tomorrow", tomorrow, date(2030, 1, 1)) == date(2030, 1, 2)
    assert await second.step("pair", pair) == [1, 2]
    assert await second.step("nothing", nothing) is None
    assert made == ["nothing"]


async def test_steps_have_names_of_their_own() -> None:
    context = _context()
    await context.step("a", lambda: 1)
    with pytest.raises(InvalidError, match="step 'a' was done in this attempt already"):
        await context.step("a", lambda: 1)


@pytest.mark.parametrize("name", ["", "x" * 300, "é" * 100])
async def test_a_step_under_a_name_that_cannot_be_kept_is_not_done(name: str) -> None:
    done: list[int] = []
    with pytest.raises(InvalidError, match="name"):
        await _context().step(name, done.append, 1)
    with pytest.raises(InvalidError, match="name"):
        await asyncio.to_thread(_context().sync.step, name, done.append, 1)
    assert done == []


async def test_a_step_with_other_arguments_is_an_error_and_not_an_old_result() -> None:
    def double(number: int, connection: object = None) -> int:
        return 2 * number

    first = _context()
    assert await first.step("a", double, 2, object()) == 4
    assert await first.step("b", double, number=2) == 4
    with pytest.raises(ConflictError, match="step 'a' was done with other arguments"):
        await _context(2, first).step("a", double, 3, object())
    assert await _context(2, first).step("a", double, 2, object()) == 4


async def test_a_set_is_the_same_argument_in_every_process() -> None:
    first = _context()
    await first.step("a", sorted, {"a", "b", "c", "d"})
    assert await _context(2, first).step("a", sorted, {"d", "c", "b", "a"}) == ["a", "b", "c", "d"]


async def test_a_step_that_fails_is_done_again() -> None:
    calls: list[int] = []

    def flaky() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("first")
        return len(calls)

    context = _context()
    with pytest.raises(ValueError, match="first"):
        await context.step("a", flaky)
    assert await context.step("a", flaky) == 2


async def test_a_result_that_is_not_as_annotated_is_an_error_and_the_step_is_not_done_again() -> None:
    calls: list[int] = []

    def wrong() -> int:
        calls.append(1)
        return "text"  # type: ignore[return-value]

    first = _context()
    with pytest.raises(InvalidError, match="result of step 'a'"):
        await first.step("a", wrong)
    with pytest.raises(InvalidError, match="result of step 'a'"):
        await _context(2, first).step("a", wrong)
    assert calls == [1]


async def test_of_two_attempts_that_did_a_step_the_later_one_counts() -> None:
    """The first was replaced while it stored its result, which comes late."""
    first = _context()
    second, third = _context(2, first), _context(3, first)
    assert await second.step("a", lambda: "second") == "second"
    assert await first.step("a", lambda: "first") == "first"
    assert await third.step("a", lambda: "third") == "second"
    assert await third._services.read(step(3, "a")) is None


async def test_steps_run_beside_each_other() -> None:
    gate = asyncio.Event()

    async def wait() -> int:
        await gate.wait()
        return 1

    async def open_() -> int:
        gate.set()
        return 2

    context = _context()
    async with asyncio.timeout(20):
        assert sum(await asyncio.gather(context.step("a", wait), context.step("b", open_))) == 3


async def test_the_calls_without_await_are_refused_in_an_event_loop() -> None:
    with pytest.raises(InvalidError, match=r"await ctx\.… instead"):
        _context().sync.checkpoint(1)


def test_an_async_step_is_refused_without_await() -> None:
    with pytest.raises(InvalidError, match="step 'a' is async"):
        _ = _context().sync.step("a", jobs.note_async, "", "")


def test_every_call_that_is_awaited_has_a_twin_without_await() -> None:
    awaited = {name for name, call in vars(Context).items() if inspect.iscoroutinefunction(call)}
    assert awaited - {"wait_cancelled"} == {name for name in vars(SyncContext) if not name.startswith("_")}


async def test_partial_results_without_await() -> None:
    link = MemoryLink()
    async with working(registry_of(jobs.emit_values_without_await, pool="process"), link):
        job = link.submit("emit_values_without_await")
        assert (await link.outcome(job)).type is OutcomeType.COMPLETED
    assert len(await link.objects.find(job, "partial/")) == 3
