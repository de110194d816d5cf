"""`mainspring jobs logs|partial`: what a job wrote reaches people whole, and never their terminal's ear."""

import io
import json
import re
import sys

import pytest
import structlog
from msgspec import structs

from cli.harness import NOW, Cli, record
from cli.test_jobs import submit
from mainspring import App
from mainspring.cli.eventview import event_line
from mainspring.cli.joblogs import _Shown
from mainspring.cli.logs import configure_logs
from mainspring.cli.output import Output
from mainspring.cli.watching import Event
from mainspring.core.objects import logs, partial
from mainspring.core.partition import parse_id
from mainspring.core.segments import END, ERR, INFO, NOTE, OUT, encode_segment, make_piece
from mainspring.core.timer import SECOND, from_micros
from mainspring.runtime.log import get_logger
from mainspring.verbs.documents import LogPart
from mainspring.wire import Failure

EVERYWHERE = True

#: What terminals obey: colours, titles, clipboards, cursors, answers that look typed, hidden and reversed text, eight-bit codes.
ATTACKS = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b[2J\x1b[1;1H",
    "\x1b[6n",
    "\x1bP$q\x1b\\",
    "safe\rgone",
    "\x08\x08\x08",
    "\x9b31m",
    "\x9d0;title\x9c",
    "\x7f",
    "\x00",
    "\u202egnp.exe",
    "\u2066\u2069",
    "\u200bzero",
    "\x0e\x0f",
    "\u2028\u2029\x85\x0b\x0c",
]


def dangerous(text: str) -> list[str]:
    """The characters in it that a terminal might obey; lines and tabs are no danger."""
    return [character for character in text if not character.isprintable() and character not in "\n\t"]


def wrote(cli: Cli, job: str, *segments: tuple[int, str | bytes], attempt: int = 1) -> None:
    encoded = [
        encode_segment(stream, NOW + place * SECOND, data.encode() if isinstance(data, str) else data)
        for place, (stream, data) in enumerate(segments)
    ]

    async def put(app: App) -> None:
        await app.engine.objects.put(parse_id(job), logs(attempt, 1), make_piece(encoded))

    cli.within(put)


def test_what_was_written_on_standard_output(cli: Cli) -> None:
    job = submit(cli)
    wrote(cli, job, (OUT, "one\r\n\ttwo\n"), (ERR, "three\n"), (INFO, "four"), (END, b""))
    wrote(cli, job, (NOTE, "something is missing\n"), (OUT, "again\n"), (END, b""), attempt=2)
    ran = cli("jobs", "logs", job)
    assert (ran.code, ran.out) == (0, "one\n\ttwo\nthree\nfouragain\n")
    assert ran.err == "mainspring: attempt 2\nmainspring: something is missing\n"
    assert cli("jobs", "logs", job, "--attempt", "2").out == "again\n"
    assert cli("jobs", "logs", job, "--raw").out.startswith("one\r\n")


def test_times_and_streams(cli: Cli) -> None:
    job = submit(cli)
    wrote(cli, job, (OUT, "one\ntwo\n"), (ERR, "a part"), (ERR, " and its rest\n"), (OUT, "last"), (END, b""))
    assert cli("jobs", "logs", job, "--timestamps").out == (
        "2030-03-17T17:46:40.000Z stdout  one\n"
        "2030-03-17T17:46:40.000Z stdout  two\n"
        "2030-03-17T17:46:41.000Z stderr  a part and its rest\n"
        "2030-03-17T17:46:43.000Z stdout  last"
    )


def test_as_json(cli: Cli) -> None:
    job = submit(cli)
    wrote(cli, job, (OUT, "\x9b31m\u202e\U000e0001\n"), (END, b""))
    ran = cli("jobs", "logs", job, "--json")
    assert dangerous(ran.out) == []
    assert json.loads(ran.out) == {
        "id": "1-1-0",
        "attempt": 1,
        "at": "2030-03-17T17:46:40Z",
        "stream": "stdout",
        "text": "\x9b31m\u202e\U000e0001\n",
    }


def test_following_ends_with_the_job(cli: Cli) -> None:
    job = submit(cli)
    cli.work_off()
    wrote(cli, job, (OUT, "one\n"), (END, b""))
    assert cli("jobs", "logs", job, "-f").out == "one\n"
    assert cli("jobs", "partial", job, "--follow").out == ""


def test_partial_results_a_line_each(cli: Cli) -> None:
    job = submit(cli)

    async def put(app: App) -> None:
        for number, value in enumerate((b'{"a": 1}', '"\x9b"'.encode()), 1):
            await app.engine.objects.put(parse_id(job), partial(1, number), value)

    cli.within(put)
    assert cli("jobs", "partial", job).out == '{"a": 1}\n"\\u009b"\n'
    lines = cli("jobs", "partial", job, "--json").out.splitlines()
    assert json.loads(lines[1]) == {"id": "1-2", "attempt": 1, "value": "\x9b"}


def test_what_is_refused(cli: Cli) -> None:
    job = submit(cli)
    for words in (("logs",), ("partial",)):
        assert f"no job {job}" in cli.fails(1, "jobs", *words, job, "--tenant", "other")
    assert "attempt" in cli.fails(2, "jobs", "logs", job, "--attempt", "0")
    assert "json: has everything" in cli.fails(2, "jobs", "logs", job, "--json", "--raw")


def test_raw_is_not_for_terminals(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "would let the job control this terminal" in bare.fails(2, "jobs", "logs", "x", "--raw")


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_a_terminal_obeys_gets_through(
    attack: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a job's words are shown: its log, its error, its progress, its result."""
    assert dangerous(attack)
    part = LogPart(attempt=1, at=from_micros(NOW), stream="stdout", text=f"a{attack}b\n")
    for timestamps in (False, True):
        _Shown(timestamps=timestamps, raw=False).show(part)
    _Shown(timestamps=False, raw=False).show(structs.replace(part, stream="note"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")  # no colours of our own
    Output(True).line({"text": attack})
    Output(False).show(None, lambda: [f'"{attack}"'])
    failed = Event("failed", NOW, record("failed", reason=attack, kind="k"), Failure("error", attack, attack))
    Output(False).console.print(event_line(failed))
    Output(False).console.print(event_line(Event("cancelled", NOW, record("cancelled", reason=attack))))
    captured = capsys.readouterr()
    assert dangerous(captured.out) == []
    assert dangerous(captured.err) == []


def test_lines_of_the_worker_are_clean_too() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    target = Terminal()
    configure_logs(as_json=False, stream=target)
    try:
        get_logger("test").warning("said", error="\x9b31m\x1b]0;title\x07")
    finally:
        structlog.reset_defaults()
    assert dangerous(re.sub(r"\x1b\[[0-9;]*m", "", target.getvalue())) == []
    assert r"\x9b31m\x1b]0;title\x07" in target.getvalue()
