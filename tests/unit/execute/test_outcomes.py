"""How attempts end, in the event loop and in threads alike."""

import asyncio
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from execute.harness import MemoryLink, registry_of, working
from mainspring.core.job import Options
from mainspring.core.timer import SECOND, to_micros
from mainspring.execute.context import Context
from mainspring.execute.hooks import Hooks
from mainspring.execute.registry import Registry
from mainspring.execute.signals import Cancel, Retry, Snooze
from mainspring.wire import Assignment, Outcome, OutcomeType

_AT = datetime(2030, 1, 1, tzinfo=UTC)


def sync_and_async(body: Callable[[], Any]) -> Registry:
    """The same body as kind `job_async` in the loop and as kind `job` in a thread."""

    def job() -> Any:
        return body()

    async def job_async() -> Any:
        return body()

    return registry_of(job, job_async)


async def outcomes(body: Callable[[], Any], **options: Any) -> list[Outcome]:
    link = MemoryLink()
    async with working(sync_and_async(body), link, now=lambda: 1000):
        return [await link.run("job", **options), await link.run("job_async", **options)]


def raiser(error: BaseException) -> Callable[[], Any]:
    def body() -> Any:
        raise error.with_traceback(None)  # raised more than once

    return body


@pytest.mark.parametrize(
    ("value", "stored"), [(None, None), (1, b"1"), ({"a": [1.5]}, b'{"a":[1.5]}'), ([None], b"[null]"), ("", b'""')]
)
async def test_a_value_completes(value: object, stored: bytes | None) -> None:
    for outcome in await outcomes(lambda: value):
        assert (outcome.type, outcome.result) == (OutcomeType.COMPLETED, stored)
        assert outcome.failure is None


@pytest.mark.parametrize("value", [object(), float("nan"), [float("inf")], 2**64, "\ud800", {None: 1}])
async def test_a_value_that_cannot_be_stored_fails_for_good(value: object) -> None:
    for outcome in await outcomes(lambda: value):
        assert outcome.type is OutcomeType.FAILED
        assert outcome.failure is not None
        assert outcome.failure.reason == "result"
        assert not outcome.retry


async def test_a_forgotten_await_is_a_bad_result() -> None:
    async def inner() -> None: ...

    for outcome in await outcomes(inner):
        assert outcome.failure is not None
        assert outcome.failure.reason == "result"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        TimeoutError(),
        asyncio.CancelledError(),
        SystemExit(1),
        StopAsyncIteration(),
    ],
)
async def test_an_exception_fails_and_is_tried_again(error: BaseException) -> None:
    for outcome in await outcomes(raiser(error), timeout_s=60.0):
        assert outcome.type is OutcomeType.FAILED
        assert outcome.failure is not None
        assert outcome.failure.reason == "error"
        assert "in body" in outcome.failure.traceback
        assert "mainspring/execute" not in outcome.failure.traceback
        assert outcome.retry
        assert outcome.retry_after_s is None


async def test_stop_iteration_in_a_thread_is_a_failure_like_any() -> None:
    outcome = (await outcomes(raiser(StopIteration())))[0]
    assert outcome.failure is not None
    assert outcome.failure.type == "StopIteration"


async def test_retry_asks_for_another_attempt() -> None:
    for outcome in await outcomes(raiser(Retry(after="10m"))):
        assert (outcome.type, outcome.retry, outcome.retry_after_s) == (OutcomeType.FAILED, True, 600.0)


@pytest.mark.parametrize(("snooze", "until"), [(Snooze("1s"), 1000 + SECOND), (Snooze(_AT), to_micros("at", _AT))])
async def test_snooze_runs_later(snooze: Snooze, until: int) -> None:
    for outcome in await outcomes(raiser(snooze)):
        assert (outcome.type, outcome.until) == (OutcomeType.SNOOZED, until)


async def test_cancel_ends_the_job() -> None:
    for outcome in await outcomes(raiser(Cancel("enough"))):
        assert (outcome.type, outcome.reason) == (OutcomeType.CANCELLED, "raised")
        assert outcome.failure is not None
        assert outcome.failure.message == "enough"


class _BaseError(Exception):
    pass


class _HopelessError(_BaseError):
    pass


@pytest.mark.parametrize(
    ("error", "retry"), [(_BaseError(), True), (_HopelessError(), False), (ValueError(), False), (Retry(), True)]
)
async def test_exception_types_decide_over_a_retry(error: Exception, retry: bool) -> None:
    async def job() -> None:
        raise error

    link = MemoryLink()
    async with working(registry_of(job, retry_on=(_BaseError,), give_up_on=(_HopelessError,)), link):
        assert (await link.run("job")).retry is retry


async def test_an_unknown_kind_fails() -> None:
    link = MemoryLink()
    async with working(Registry(), link):
        outcome = await link.run("missing")
    assert outcome.type is OutcomeType.FAILED
    assert outcome.failure is not None
    assert outcome.failure.reason == "unknown_kind"
    assert not outcome.retry


@pytest.mark.parametrize("data", [b"", b"[]", b'{"to":1}', b"{}", b'{"to":"a","cc":1}', b'{"to":"\xff"}', b"\xff\xfe"])
async def test_arguments_that_do_not_fit_fail(data: bytes) -> None:
    def job(to: str) -> None: ...

    async def job_async(to: str) -> None: ...

    link = MemoryLink()
    async with working(registry_of(job, job_async), link):
        for kind in ("job", "job_async"):
            outcome = await link.run(kind, data)
            assert outcome.failure is not None
            assert outcome.failure.reason == "arguments"
            assert not outcome.retry


async def test_defaults_of_the_function_apply() -> None:
    async def job(a: int, b: int = 2, *, c: int = 3) -> list[int]:
        return [a, b, c]

    link = MemoryLink()
    async with working(registry_of(job), link):
        assert (await link.run("job", {"a": 1})).result == b"[1,2,3]"
        assert (await link.run("job", {"a": 1, "c": 9})).result == b"[1,2,9]"


async def test_a_context_is_given_to_who_asks() -> None:
    async def job_async(ctx: Context, a: int) -> list[object]:
        return [ctx.kind, ctx.attempt, a]

    def job(a: int, ctx: Context) -> list[object]:
        return [ctx.kind, ctx.failures, a]

    link = MemoryLink()
    async with working(registry_of(job, job_async), link):
        assert (await link.run("job_async", {"a": 5})).result == b'["job_async",1,5]'
        assert (await link.run("job", {"a": 5}, failures=2)).result == b'["job",2,5]'


async def test_context_variables_do_not_leak_between_jobs() -> None:
    import contextvars

    seen = contextvars.ContextVar("seen", default=0)

    def body() -> int:
        before = seen.get()
        seen.set(1)
        return before

    link = MemoryLink()
    async with working(sync_and_async(body), link, threads=1):
        for kind in ("job", "job", "job_async", "job_async"):
            assert (await link.run(kind)).result == b"0"


async def test_hooks_follow_attempts() -> None:
    log: list[object] = []

    async def good(a: int) -> tuple[int, int]:
        return a, a

    def bad() -> None:
        raise ValueError("x")

    async def on_success(assignment: Assignment, result: object) -> None:
        log.append((assignment.kind, result))

    def on_failure(assignment: Assignment, failure: Any) -> None:
        log.append((assignment.kind, failure.reason))

    def broken(*_: object) -> None:
        raise RuntimeError("a hook of the user's")

    link = MemoryLink()
    hooks = Hooks(on_success=[broken, on_success], on_failure=[broken, on_failure])
    async with working(registry_of(good, bad), link, hooks=hooks) as worker:
        assert (await link.run("good", {"a": 1})).type is OutcomeType.COMPLETED
        assert (await link.run("bad")).type is OutcomeType.FAILED
        assert (await link.run("nobody")).type is OutcomeType.FAILED
    assert worker.busy == 0
    assert log == [("good", (1, 1)), ("bad", "error"), ("nobody", "unknown_kind")]


async def test_hooks_see_a_large_result_too() -> None:
    sizes: list[int] = []

    async def large(size: int) -> str:
        return "x" * size

    link = MemoryLink()
    hooks = Hooks(on_success=[lambda _, result: sizes.append(len(result))])
    async with working(registry_of(large), link, hooks=hooks):
        await link.run("large", {"size": 10})
        await link.run("large", {"size": 100_000})
    assert sizes == [10, 100_000]


async def test_a_function_that_ended_in_time_has_not_timed_out_while_its_result_is_stored() -> None:
    class Looking(MemoryLink):
        async def put_object(self, session: bytes, job: bytes, attempt: int, name: str, data: bytes | Path) -> None:
            assert worker._runner is not None
            timer = worker._runner.live[job].timer
            stopped.append(timer is not None and timer.cancelled())
            await super().put_object(session, job, attempt, name, data)

    async def large() -> str:
        return "x" * 100_000

    stopped: list[bool] = []  # its timer, while the result is stored
    link = Looking()
    async with working(registry_of(large), link) as worker:
        assert (await link.run("large", timeout_s=60.0)).type is OutcomeType.COMPLETED
    assert stopped == [True]


async def test_a_job_that_cancels_its_own_task_is_a_failure_at_most() -> None:
    async def at_once() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    async def in_passing() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return 1

    link = MemoryLink()
    async with working(registry_of(at_once, in_passing), link, hooks=Hooks(on_success=[lambda *_: None])) as worker:
        outcome = await link.run("at_once")
        assert outcome.failure is not None
        assert outcome.failure.type == "asyncio.exceptions.CancelledError"
        assert (await link.run("in_passing")).result == b"1"
    assert worker.busy == 0


async def test_the_same_assignment_twice_runs_once_and_a_newer_one_replaces() -> None:
    begun: list[int] = []
    gate = asyncio.Event()

    async def job(ctx: Context) -> int:
        begun.append(ctx.attempt)
        await gate.wait()
        return ctx.attempt

    async def other() -> None: ...

    link = MemoryLink()
    async with working(registry_of(job, other), link):
        id_ = link.submit("job")
        await link.run("other")
        first = Assignment(id_, 1, "default", "default", "job", b"{}", Options())
        link.assign(first)
        await link.run("other")
        assert begun == [1]
        link.assign(Assignment(id_, 2, "default", "default", "job", b"{}", first.options))
        await link.run("other")
        gate.set()
        outcome = await link.outcome(id_)
    assert begun == [1, 2]
    assert (outcome.attempt, outcome.result) == (2, b"2")


def test_jobs_in_threads_may_exit_their_thread() -> None:
    """`sys.exit` in a thread must not take the thread, or the worker, along."""

    async def scenario() -> None:
        link = MemoryLink()
        async with working(sync_and_async(lambda: sys.exit(1)), link, threads=1):
            for _ in range(3):
                assert (await link.run("job")).type is OutcomeType.FAILED

    before = threading.active_count()
    asyncio.run(scenario())
    assert threading.active_count() <= before + 1
