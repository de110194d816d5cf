"""The installed command as a process of its own: start-up, signals, exit codes, streams."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MAINSPRING = str(Path(sys.executable).parent / "mainspring")


def mainspring(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([MAINSPRING, *arguments], capture_output=True, text=True, timeout=30, check=False)


@contextmanager
def running(*arguments: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen([MAINSPRING, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines_until(process: "subprocess.Popen[str]", wanted: str) -> list[str]:
    """Read standard output up to the line that holds `wanted`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if wanted in line:
            return lines
    raise AssertionError(f"{wanted!r} never came: {lines}")


def test_version_loads_neither_typer_nor_rich() -> None:
    check = (
        "import sys; from mainspring.cli import main; main(['--version']); print({'typer', 'rich'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout == "mainspring 0.1.0\nset()\n"


@pytest.mark.usefixtures("workplace")
def test_worker_executes_and_drains_on_sigterm() -> None:
    with running("worker", "tasks:app", "--slots", "3", "--label", "eu") as worker:
        log = [json.loads(line) for line in lines_until(worker, "registered")]
        assert log[0]["event"] == "starting"
        assert log[-1]["slots"] == 3
        ran = mainspring(
            "submit", "send", "--args", '{"to": "a"}', "--label", "eu", "--wait", "--wait-timeout", "20s", "--json"
        )
        assert (ran.returncode, json.loads(ran.stdout)["result"]) == (0, "a x1")
        failed = mainspring("submit", "broken", "--args", '{"why": "no"}', "--wait")
        assert (failed.returncode, "ValueError: no" in failed.stderr) == (1, True)
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=20)
        assert worker.returncode == 0, err
        assert json.loads(out.splitlines()[-1])["event"] == "stopped"


@pytest.mark.usefixtures("workplace")
def test_a_worker_that_is_asked_to_leave_ends_as_on_sigterm() -> None:
    with running("worker", "tasks:app") as worker:
        lines_until(worker, "registered")
        (node,) = json.loads(mainspring("nodes", "list", "--json").stdout)["nodes"]
        assert (node["name"].endswith(f"-{worker.pid}"), node["partitions"]) == (True, 4)
        ran = mainspring("nodes", "drain", node["id"][:8])
        assert (ran.returncode, ran.stdout) == (0, f"{node['name']} was asked to leave\n")
        out, err = worker.communicate(timeout=20)
        assert worker.returncode == 0, err
        events = [json.loads(line)["event"] for line in out.splitlines()]
        assert events[0] == "asked to leave"
        assert events[-1] == "stopped"


@pytest.mark.usefixtures("workplace")
def test_dev_shows_what_happens_and_stops_on_ctrl_c() -> None:
    with running("dev", "tasks:app", "--port", "0") as dev:
        greeting = "".join(lines_until(dev, "Ctrl-C"))
        assert "mainspring.db" in greeting
        assert "broken, report, send" in greeting
        job = mainspring("submit", "send", "--args", '{"to": "a"}').stdout.strip()
        seen = "".join(lines_until(dev, "completed"))
        assert f"submitted  send            {job}" in seen
        assert '→ "a x1"' in seen
        mainspring("submit", "broken", "--args", '{"why": "no"}')
        assert "ValueError: no (error)" in lines_until(dev, "failed")[-1]
        dev.send_signal(signal.SIGINT)
        out, err = dev.communicate(timeout=20)
        assert (dev.returncode, out.splitlines()[-1], err) == (0, "stopped", "")


@pytest.mark.usefixtures("workplace")
def test_dev_events_for_machines() -> None:
    with running("dev", "tasks:app", "--port", "0", "--json") as dev:
        lines_until(dev, "ready")
        mainspring("submit", "send", "--args", '{"to": "a"}')
        event = json.loads(lines_until(dev, '"event":"completed"')[-1])
        assert (event["event"], event["job"]["kind"], event["result"]) == ("completed", "send", "a x1")


@pytest.mark.usefixtures("workplace")
def test_ctrl_c_is_quiet() -> None:
    mainspring("submit", "send", "--app", "tasks:app", "--args", '{"to": "a"}')
    job = json.loads(mainspring("jobs", "list", "--json").stdout)["jobs"][0]["id"]
    with running("jobs", "wait", job) as waiting:
        time.sleep(1.5)
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate(timeout=10) == ("", "")
        assert waiting.returncode == 130


@pytest.mark.usefixtures("workplace")
def test_a_reader_that_goes_away_is_no_error() -> None:
    mainspring("migrate")
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run(
        [MAINSPRING, "jobs", "list"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=30, check=False
    )
    os.close(write)
    assert (ran.returncode, ran.stderr) == (1, "")
