"""The examples run as they are, each in a process of its own and on a store of the test's own."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAINSPRING = str(Path(sys.executable).parent / "mainspring")


def start(folder: Path, *command: str) -> "subprocess.Popen[str]":
    environ = os.environ | {"MAINSPRING_STORE": f"sqlite:///{folder}/test.db", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_until(process: "subprocess.Popen[str]", *wanted: str) -> str:
    """Everything up to the line after which all of `wanted` have been seen."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if all(words in text for words in wanted):
            return text
    raise AssertionError(f"ended before all of {wanted}: {text}")


def test_quickstart_prints_its_result_and_ends(folder: Path) -> None:
    process = start(folder, sys.executable, "examples/quickstart.py")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out.splitlines()[-1]) == (0, "Hello, World!"), err


def test_tour_shows_everything_and_ends_on_ctrl_c(folder: Path) -> None:
    process = start(folder, MAINSPRING, "dev", "examples.tour:app", "--port", "0")
    try:
        told = read_until(process, "on its way", "17984", "paid at attempt", "still here", "due in 8 s")
        assert "retrying   charge_card" in told
        assert "ConnectionError: the bank does not answer" in told
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out.splitlines()[-1], err) == (0, "stopped", "")
    finally:
        process.kill()


def test_a_web_server_without_asyncio_and_a_worker(folder: Path) -> None:
    web = start(folder, sys.executable, "examples/sync_web.py", "0")
    worker = start(folder, MAINSPRING, "worker", "examples.sync_web:app")
    try:
        url = read_until(web, "\n").split()[-1]
        job = urllib.request.urlopen(url, data=b"ada@example.org", timeout=10).read().decode().strip()
        environ = os.environ | {"MAINSPRING_STORE": f"sqlite:///{folder}/test.db"}
        wait = [MAINSPRING, "jobs", "wait", job, "--timeout", "20s"]
        ran = subprocess.run(wait, env=environ, capture_output=True, text=True, timeout=30, check=False)
        assert ran.stdout == '"welcomed ada@example.org"\n', ran.stderr
        assert urllib.request.urlopen(f"{url}/{job}", timeout=10).read() == b"completed\n"
    finally:
        for process in (web, worker):
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
