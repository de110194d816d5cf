"""Small parts: words for people, log lines, the view of events."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog
from msgspec import structs

from cli.harness import NOW, record
from mainspring.cli.eventview import event_line
from mainspring.cli.logs import configure_logs
from mainspring.cli.watching import Event, changes
from mainspring.core.timer import SECOND
from mainspring.core.words import clean, count, duration, listed, relative, shortened
from mainspring.runtime.log import get_logger
from mainspring.wire import Failure


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.0004, "under 1 ms"),
        (0.012, "12 ms"),
        (0.9996, "1 s"),
        (3.44, "3.4 s"),
        (59.96, "1 m"),
        (60, "1 m"),
        (125, "2 m 5 s"),
        (3600, "1 h"),
        (3605, "1 h"),
        (93_600, "1 d 2 h"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_relative_times() -> None:
    assert relative(NOW + 90 * SECOND, NOW) == "in 1 m 30 s"
    assert relative(NOW - 2 * SECOND, NOW) == "2 s ago"
    assert relative(NOW, NOW) == "now"


def test_stored_text_cannot_reach_the_terminal() -> None:
    assert clean("a\x1b[2Jb\nc\0") == "a\\x1b[2Jb\nc\\x00"
    assert clean("a\r\nb\tc", one_line=True) == "a  b c"
    assert clean("right-to-left \u202e") == "right-to-left \\u202e"
    assert shortened("x" * 100, 10) == "x" * 9 + "…"


def test_counting_and_listing() -> None:
    assert (count(1, "job"), count(2000, "job")) == ("1 job", "2,000 jobs")
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"


@pytest.fixture
def logging_restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("logging_restored")
def test_log_lines_are_json_where_nobody_watches() -> None:
    stream = io.StringIO()
    configure_logs(as_json=False, stream=stream)
    get_logger("mainspring.test").info("hello", number=1)
    get_logger("mainspring.test").debug("quiet")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["number"], line["level"]) == ("hello", 1, "info")
    assert line["timestamp"].endswith("Z")


@pytest.mark.usefixtures("logging_restored")
def test_without_configuration_lines_go_to_the_standard_library(caplog: pytest.LogCaptureFixture) -> None:
    structlog.reset_defaults()
    get_logger("mainspring.test").info("not asked for")
    get_logger("mainspring.test").warning("100% {odd}", key="%s")
    assert [(r.name, r.message) for r in caplog.records] == [("mainspring.test", "100% {odd} key=%s")]


def test_what_happened_between_two_looks() -> None:
    fresh = record(attempt=0)
    running = structs.replace(fresh, state="running", attempt=1, started_at=NOW)
    waiting = structs.replace(running, state="pending", failures=1, due_at=NOW + SECOND)
    done = structs.replace(waiting, state="completed", attempt=2, finished_at=NOW + SECOND)

    def names(before: object, after: object) -> list[str]:
        return [event.name for event in changes(before, after)]  # type: ignore[arg-type]

    assert names(None, fresh) == ["submitted"]
    assert names(fresh, running) == ["started"]
    assert names(running, running) == []
    assert names(running, waiting) == ["retrying"]
    assert names(fresh, done) == ["retrying", "completed"]
    assert names(None, done) == ["submitted", "retrying", "completed"]
    assert names(running, structs.replace(running, state="failed", failures=1, finished_at=NOW)) == ["failed"]
    assert names(structs.replace(running, state="failed"), fresh) == ["replayed"]


def test_an_event_is_one_line() -> None:
    failed = Event("failed", NOW, record("failed", reason="error"), Failure("error", "ValueError", "no\nway\x1b"))
    line = event_line(failed).plain
    assert "ValueError: no way\\x1b (error)" in line
    assert "\n" not in line
