"""What the tests of faults share: a place with a database and an effect log, processes, and waiting for observables."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import json

from faults.effects import Effect, read_effects
from faults.load import Done
from faults.places import File, Place
from faults.scene import Jobs, make_jobs

T = TypeVar("T")

STORES = ("sqlite", "postgres")
#: For what is about files, and for what no store can make a difference to.
ON_SQLITE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
PATIENCE_S = 60.0  # far more than anything here takes; a wait that long is a failure and says what it waited for
HERE = Path(__file__).parent
_POLL_S = 0.01


def until(probe: Callable[[], T], what: str, within_s: float = PATIENCE_S) -> T:
    """The first true answer of the probe."""
    deadline_s = time.monotonic() + within_s
    while not (answer := probe()):
        assert time.monotonic() < deadline_s, f"waited {within_s:g} s in vain: {what}"
        time.sleep(_POLL_S)
    return answer


class Child:
    """A process under test. It says what it does in lines on its stdout; its stderr is kept for the failure's report."""

    def __init__(self, site: "Site", script: str, config: dict[str, Any], *, prefix: Iterable[str] = ()) -> None:
        self.name = f"{script}-{len(site.children)}"
        self._errors = site.folder / f"{self.name}.stderr"
        environ = {
            **os.environ,
            "FAULTS_LOG": str(site.log),
            "PYTHONPATH": str(HERE.parent),
            "PYTHONFAULTHANDLER": "1",
        }
        command = [*prefix, sys.executable, "-m", f"faults.{script}", json.encode(config).decode()]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environ
            )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._said = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def hear(self, what: str = "ready", within_s: float = PATIENCE_S) -> str:
        """The rest of the next line that begins with this word; lines before it are dropped."""
        deadline_s = time.monotonic() + within_s
        while True:
            while b"\n" in self._said:
                line, _, self._said = self._said.partition(b"\n")
                word, _, rest = line.decode().partition(" ")
                if word == what:
                    return rest
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"{self.name} did not say {what!r}: {self.errors()}"
            self._listen(left_s, what)

    def has_said(self, what: str) -> bool:
        """By now, and nobody has heard it yet."""
        assert self._process.stdout is not None
        self._said += self._process.stdout.read() or b""
        return any(line.decode().partition(" ")[0] == what for line in self._said.split(b"\n")[:-1])

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()

    def wait(self, within_s: float = PATIENCE_S) -> int:
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended in {within_s:g} s: {self.errors()}") from None

    def errors(self) -> str:
        return self._errors.read_text()[-4000:]

    def close(self) -> None:
        if self.alive:
            self.kill()
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _listen(self, within_s: float, what: str) -> None:
        assert self._process.stdout is not None
        if self._selector.select(within_s):
            said = self._process.stdout.read()
            assert said != b"", f"{self.name} ended before it said {what!r}: {self.errors()}"
            self._said += said or b""


class Site:
    """One database, its effect log, and the processes that work on it."""

    def __init__(self, folder: Path, place: Place | None = None) -> None:
        self.folder = folder
        self.place = place or File(folder / "faults.db")
        self.log = folder / "effects.log"
        self.log.touch()
        self.children: list[Child] = []

    def jobs(self, **options: Any) -> Jobs:
        """The application, for this process."""
        return make_jobs(self.place.settings, **options)

    def start(self, script: str, *, prefix: Iterable[str] = (), **config: Any) -> Child:
        child = Child(self, script, {"store": self.place.settings, **config}, prefix=prefix)
        self.children.append(child)
        return child

    def worker(self, **config: Any) -> Child:
        """A process that runs the application; it has begun to work when this returns."""
        child = self.start("child_worker", **config)
        child.hear("ready")
        return child

    def load(self, name: str = "load", **config: Any) -> "Loading":
        """A process that submits all the time."""
        return Loading(self, self.folder / f"{name}.acks", config)

    def effects(self) -> list[Effect]:
        return read_effects(self.log)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """What is stored now, read past Mainspring."""
        return self.place.rows(sql, *values)

    def value(self, sql: str, *values: Any) -> Any:
        return self.rows(sql, *values)[0][0]

    def drained(self, within_s: float = PATIENCE_S) -> None:
        """Until every job has ended."""
        left = "select count(*) from job where state not in ('completed', 'failed', 'cancelled')"
        until(lambda: self.value(left) == 0, "every job ends", within_s)

    def freeze(self, child: Child) -> None:
        """Stop a process, but not where it stops everybody with it: in the middle of a commit it has the lock of SQLite's file."""

        def frozen() -> bool:
            child.signal(signal.SIGSTOP)
            until(lambda: not child.alive or _state_of(child.pid) == "T", "the process has stopped")
            assert child.alive, f"{child.name} has ended by itself with code {child.wait()}: {child.errors()}"
            if self.place.can_write():
                return True
            child.signal(signal.SIGCONT)
            return False

        until(frozen, "the process stops outside of a commit")

    def close(self) -> None:
        for child in self.children:
            child.close()
        self.place.close()


class Loading:
    """A process that submits until it is stopped, and what was acknowledged to it."""

    def __init__(self, site: Site, acks: Path, config: dict[str, Any]) -> None:
        self._acks = acks
        acks.touch()
        self.child = site.start("child_load", **{"acks": str(acks), "seed": 1, **config})
        self.child.hear("ready")

    @property
    def acknowledged(self) -> list[str]:
        """Whole lines only: it may be writing."""
        return self._acks.read_text().rpartition("\n")[0].split()

    def goes_on(self, within_s: float = PATIENCE_S) -> None:
        """Until another submit has been acknowledged."""
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) > before, "submits are acknowledged", within_s)

    def stop(self) -> Done:
        self.child.tell("stop")
        done = json.decode(self.child.hear("done"), type=Done)
        assert self.child.wait() == 0, self.child.errors()
        assert done.acknowledged == len(self.acknowledged)
        return done


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
