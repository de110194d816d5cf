"""`mainspring server` and the API of `mainspring dev`, as processes of their own."""

import json
import re
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cli.harness import Cli
from cli.test_processes import lines_until, running


def ask(url: str, key: str | None = None, document: Any = None) -> Any:
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    data = None if document is None else json.dumps(document).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=20) as response:
        return json.loads(response.read())


def address(process: "subprocess.Popen[str]") -> str:
    return str(json.loads(lines_until(process, '"serving"')[-1])["url"])


@pytest.mark.usefixtures("workplace")
def test_the_first_start_prints_a_key_once_and_sigterm_ends_it() -> None:
    with running("server", "tasks:app", "--port", "0") as server:
        url = address(server)
        key = lines_until(server, "msk_")[-1].strip()
        job = ask(f"{url}/v1/jobs", key, {"kind": "send", "arguments": {"to": "a"}})["id"]
        ended = ask(f"{url}/v1/jobs/{job}/wait?timeout_s=20", key)
        assert (ended["state"], ended["result"]) == ("completed", "a x1")
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=20)
        assert (server.returncode, json.loads(out.splitlines()[-1])["event"], err) == (0, "stopped", "")
    with running("server", "--port", "0") as server:
        url = address(server)
        assert ask(f"{url}/v1/jobs/{job}", key)["state"] == "completed"
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=20)
        assert (server.returncode, "msk_" in out, err) == (0, False, "")


@pytest.mark.usefixtures("workplace")
def test_without_keys_it_says_so_loudly() -> None:
    with running("server", "--port", "0", "--no-keys") as server:
        url = address(server)
        warned = json.loads(lines_until(server, "no keys")[-1])
        assert (warned["level"], warned["url"]) == ("warning", url)
        assert ask(f"{url}/v1/tenants") is not None


WRONG = {
    "no keys for everybody": (["--host", "0.0.0.0", "--no-keys"], "everybody who reaches 0.0.0.0 could do everything"),
    "half of TLS": (["--tls-cert", "x.pem"], "tls_key: a certificate and its key go together"),
    "no port": (["--port", "70000"], "port: expected a number"),
    "no address": (["--host", "nowhere.invalid", "--port", "0"], "host: cannot listen on nowhere.invalid"),
}


@pytest.mark.parametrize(("given", "problem"), WRONG.values(), ids=WRONG.keys())
def test_what_is_refused_before_anything_starts(bare: Cli, given: list[str], problem: str) -> None:
    assert problem in bare.fails(2, "server", *given)
    assert not Path("mainspring.db").exists()


def test_a_taken_port(bare: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port: {port} is taken by another program" in bare.fails(2, "server", "--port", port)
        assert f"such as --port {int(port) + 1}" in bare.fails(2, "dev", "tasks:app", "--port", port)
    assert not Path("mainspring.db").exists()


@pytest.mark.usefixtures("workplace")
def test_dev_serves_the_api_and_shows_a_line_that_works() -> None:
    with running("dev", "tasks:app", "--port", "0") as dev:
        greeting = "".join(lines_until(dev, "Ctrl-C"))
        assert "/v1/docs" in greeting
        found = re.search(r"curl (http://\S+) -H '(\S+: \S+)' -d '(.*)'", greeting)
        assert found is not None, greeting
        url, _, body = found.groups()
        job = ask(url, None, json.loads(body))["id"]
        assert job in "".join(lines_until(dev, "submitted"))
        dev.send_signal(signal.SIGINT)
        _, err = dev.communicate(timeout=20)
        assert (dev.returncode, err) == (0, "")
