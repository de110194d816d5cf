"""Signals, the context and the text of failures, each on its own."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from execute.harness import context_of
from mainspring.core.job import Options
from mainspring.core.timer import SECOND, to_micros
from mainspring.errors import InvalidError, MainspringError
from mainspring.execute.context import Context
from mainspring.execute.failure import MAX_MESSAGE_BYTES, MAX_TRACEBACK_BYTES, failure
from mainspring.execute.signals import Cancel, Retry, Signal, Snooze
from mainspring.wire import Assignment

_AT = datetime(2030, 1, 1, tzinfo=UTC)


def _context(failures: int = 0, **options: Any) -> Context:
    return context_of(Assignment(b"\1" * 16, 3, "acme", "mail", "send", b"{}", Options(**options), failures))


@pytest.mark.parametrize("signal", [Retry(), Retry("10m"), Snooze(5), Snooze(_AT), Cancel(), Cancel("x")])
def test_a_signal_is_an_exception_but_not_an_error_of_ours(signal: Signal) -> None:
    assert isinstance(signal, Exception)
    assert not isinstance(signal, MainspringError)


@pytest.mark.parametrize("after", ["soon", -1, float("nan"), float("inf"), True, timedelta(seconds=-1), [1]])
def test_a_bad_duration_is_refused_where_it_is_raised(after: Any) -> None:
    with pytest.raises(InvalidError, match=r"^after: "):
        Retry(after)
    with pytest.raises(InvalidError, match=r"^until: "):
        Snooze(after)


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(InvalidError, match="no time zone"):
        Snooze(datetime(2030, 1, 1))  # noqa: DTZ001


def test_snooze_counts_from_now_or_to_a_time() -> None:
    assert Snooze("10m").until(5) == 5 + 600 * SECOND
    assert Snooze(_AT).until(5) == to_micros("at", _AT)


def test_a_context_tells_about_the_attempt() -> None:
    context = _context(2, retries=2, deadline_at=to_micros("at", _AT), tags=("a",), labels=frozenset({"gpu"}))
    assert context.job_id == "01010101-0101-0101-0101-010101010101"
    assert (context.attempt, context.kind, context.queue, context.tenant) == (3, "send", "mail", "acme")
    assert (context.failures, context.retries_left, context.is_last_attempt) == (2, 0, True)
    assert (context.deadline, context.tags, context.labels) == (_AT, ("a",), frozenset({"gpu"}))
    assert not _context(1, retries=2).is_last_attempt
    assert _context().deadline is None


def test_check_cancelled_raises_once_asked() -> None:
    context = _context()
    context.check_cancelled()
    context.request_stop()
    assert context.cancelled
    with pytest.raises(Cancel):
        context.check_cancelled()


async def test_wait_cancelled_is_woken_from_any_thread() -> None:
    context = _context()
    waiters = [asyncio.ensure_future(context.wait_cancelled()) for _ in range(3)]
    await asyncio.sleep(0)
    thread = threading.Thread(target=context.request_stop)
    thread.start()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiters)
        await context.wait_cancelled()
    thread.join()


def _caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


class _UnreadableError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class _StrangeTypeError(Exception):
    __module__ = "\ud800"


def test_a_failure_names_the_error_and_starts_at_the_users_line() -> None:
    why = failure("error", _caught(ValueError("no")))
    assert (why.reason, why.type, why.message) == ("error", "ValueError", "no")
    assert why.traceback.startswith("Traceback (most recent call last):\n")
    assert "in _caught" in why.traceback
    assert why.traceback.endswith("ValueError: no\n")
    assert failure("error", InvalidError("f", "p")).type == "mainspring.errors.InvalidError"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x" * 100_000),
        ValueError("é" * 100_000),
        ValueError("\ud800" * 100_000),
        ValueError("a\ud800b\0"),
        _UnreadableError(),
        _StrangeTypeError(),
        ExceptionGroup("many", [ValueError(str(n)) for n in range(1000)]),
        SystemExit(3),
        asyncio.CancelledError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        SyntaxError("bad", ("\ud800", 1, 2, "x\ud800")),
    ],
)
def test_a_failure_is_bounded_and_valid_text_whatever_the_error(error: BaseException) -> None:
    why = failure("error", _caught(error))
    assert len(why.message.encode()) <= MAX_MESSAGE_BYTES
    assert len(why.type.encode()) <= MAX_MESSAGE_BYTES
    assert 0 < len(why.traceback.encode()) <= MAX_TRACEBACK_BYTES


def test_an_error_without_a_readable_message_still_has_one() -> None:
    assert failure("error", _UnreadableError()).message == "the message of this exception could not be read"


def test_the_end_of_a_long_traceback_is_kept() -> None:
    why = failure("error", _caught(ValueError("x" * 100_000 + "the end")))
    assert why.traceback.endswith("the end\n")
    assert why.message.startswith("xxx")


def test_a_cause_is_part_of_the_traceback() -> None:
    def fail() -> None:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise Retry() from error

    with pytest.raises(Retry) as caught:
        fail()
    assert "ValueError: first" in failure("error", caught.value).traceback
