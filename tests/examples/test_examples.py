"""The examples run as they are, each in a process of its own and on a store of the test's own."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

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


def test_scripts_need_no_function(folder: Path) -> None:
    process = start(folder, MAINSPRING, "dev", "examples.scripts:app", "--port", "0")
    try:
        told = read_until(process, "job types", "completed  script")
        assert r'"stdout":"6\n"' in told
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out.splitlines()[-1]) == (0, "stopped"), err
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


def test_a_worker_in_plain_shell(folder: Path) -> None:
    server = start(folder, MAINSPRING, "server", "--port", "0", "--store", f"sqlite:///{folder}/test.db", "--no-keys")
    started = [server]
    try:
        address = re.search(r"http://[0-9.:]+", read_until(server, "serving"))
        assert address is not None
        worker = subprocess.Popen(
            ["sh", "examples/worker.sh"],
            cwd=ROOT,
            env=os.environ | {"MAINSPRING_SERVER": address[0]},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(worker)
        read_until(worker, "registered")
        asked = {"kind": "shell.upper", "arguments": {"text": "größe"}, "options": {"retries": 0}}
        good = post(f"{address[0]}/v1/jobs", asked)["id"]
        bad = post(f"{address[0]}/v1/jobs", asked | {"arguments": {}})["id"]
        ended = [get(f"{address[0]}/v1/jobs/{job}/wait?timeout_s=30") for job in (good, bad)]
        assert [end["state"] for end in ended] == ["completed", "failed"]
        assert ended[0]["result"] == "GRÖSSE"
        assert ended[1]["error"]["message"] == "KeyError: 'text'"
        (session,) = get(f"{address[0]}/v1/workers")
        drain = urllib.request.Request(f"{address[0]}/v1/workers/{session['id']}/drain", method="POST")
        with urllib.request.urlopen(drain, timeout=30) as answer:
            assert answer.status == 204
        assert worker.wait(30) == 0
        assert get(f"{address[0]}/v1/workers") == []
    finally:
        for process in started:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)


def post(url: str, document: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(document).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)
