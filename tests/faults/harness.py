"""What the tests of faults share: processes, waiting for observables, the effect log and its checker."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
from msgspec import json

from faults.scene import Jobs, make_jobs
from mainspring.core.partition import format_id
from mainspring.core.timer import SECOND
from mainspring.store.sqlite.database import connect

T = TypeVar("T")

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


class Effect(NamedTuple):
    """One run of a job, as it told itself."""

    job: str
    attempt: int
    pid: int
    at_s: float  # monotonic, the same in every process


class Child:
    """A process under test. It says what it does in lines on its stdout; its stderr is kept for the failure's report."""

    def __init__(self, site: "Site", script: str, config: dict[str, Any], *, prefix: Iterable[str] = ()) -> None:
        self.name = f"{script}-{len(site.children)}"
        self._errors = site.folder / f"{self.name}.stderr"
        environ = {
            **os.environ,
            "FAULTS_LOG": str(site.log),
            "PYTHONPATH": str(HERE.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
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
    """One store file, its effect log, and the processes that work on it."""

    def __init__(self, folder: Path, store: Path | None = None) -> None:
        self.folder = folder
        self.store = store or folder / "faults.db"
        self.log = folder / "effects.log"
        self.log.touch()
        self.children: list[Child] = []

    @property
    def url(self) -> str:
        return f"sqlite:///{self.store}"

    def jobs(self, **options: Any) -> Jobs:
        """The application, for this process."""
        return make_jobs(self.url, **options)

    def start(self, script: str, *, prefix: Iterable[str] = (), **config: Any) -> Child:
        child = Child(self, script, {"store": self.url, **config}, prefix=prefix)
        self.children.append(child)
        return child

    def worker(self, **config: Any) -> Child:
        """A process that runs the application; it has begun to work when this returns."""
        child = self.start("child_worker", **config)
        child.hear("ready")
        return child

    def effects(self) -> list[Effect]:
        lines = (line.split() for line in self.log.read_text().splitlines())
        return [Effect(job, int(attempt), int(pid), int(at_ns) / 1e9) for job, attempt, pid, at_ns in lines]

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """What is stored now, read past Mainspring."""
        connection = connect(self.store, readonly=True)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def value(self, sql: str, *values: Any) -> Any:
        return self.rows(sql, *values)[0][0]

    def drained(self, within_s: float = PATIENCE_S) -> None:
        """Until every job has ended."""
        left = "select count(*) from job where state not in ('completed', 'failed', 'cancelled')"
        until(lambda: self.value(left) == 0, "every job ends", within_s)

    def idle_writer(self) -> bool:
        """Does nobody hold the file's write lock at this moment?"""
        connection = connect(self.store)
        try:
            connection.set_busy_timeout(0)
            connection.execute("begin immediate; rollback")
        except apsw.BusyError:
            return False
        finally:
            connection.close()
        return True

    def freeze(self, child: Child) -> None:
        """Stop a process, but not in the middle of a commit: SQLite's lock would stop everybody with it."""

        def frozen() -> bool:
            child.signal(signal.SIGSTOP)
            until(lambda: _state_of(child.pid) == "T", "the process has stopped")
            if self.idle_writer():
                return True
            child.signal(signal.SIGCONT)
            return False

        until(frozen, "the process stops outside of a commit")

    def close(self) -> None:
        for child in self.children:
            child.close()


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Tally(NamedTuple):
    """What the checker found. `repeats`: runs beyond the first of a job. `unexplained`: those that no lost or failed attempt
    in the store explains."""

    runs: int
    repeats: int
    unexplained: int


def check_effects(site: Site, acknowledged: Iterable[str]) -> Tally:
    """Lost is 0; every run has an attempt number of its own, and none that the store has not given out."""
    effects = site.effects()
    runs = Counter(effect.job for effect in effects)
    lost = [job for job in acknowledged if job not in runs]
    assert not lost, f"{len(lost)} acknowledged jobs never ran, such as {lost[:3]}"
    twice = [key for key, count in Counter(effect[:2] for effect in effects).items() if count > 1]
    assert not twice, f"{len(twice)} attempts ran twice, such as {twice[:3]}"
    stored = {format_id(row[0]): row[1:] for row in site.rows("select id, attempt, losses, failures from job")}
    unknown = [effect for effect in effects if effect.job in stored and effect.attempt > stored[effect.job][0]]
    assert not unknown, f"runs that the store knows nothing of: {unknown[:3]}"
    allowed = {job: 1 + losses + failures for job, (_, losses, failures) in stored.items()}
    unexplained = sum(max(0, count - allowed.get(job, 1)) for job, count in runs.items())
    return Tally(len(effects), len(effects) - len(runs), unexplained)


def check_every_second(site: Site, schedule: str) -> int:
    """Each second from a schedule's first to its last fired once or is recorded as missed; how many jobs it made."""
    rows = site.rows("select occurrence_at from occurrence where schedule = ? order by 1", schedule)
    made = "select count(*) from spec where options ->> '$.schedule' = ?"
    assert site.value(made, schedule) == len(rows), "more than one job for an occurrence"
    missed = site.rows("select first_at, last_at from missed where schedule = ?", schedule)
    covered = sorted([(at, at) for (at,) in rows] + missed)
    wrong = [(a, b) for a, b in pairwise(covered) if b[0] - a[1] != SECOND]
    assert not wrong, f"{len(wrong)} gaps or repeats, such as {wrong[0]}"
    return len(rows)


def check_tables(site: Site) -> None:
    """Every waiting job waits in one place, every live one has one row, every ended one is listed once; counters fit."""
    for name, sql in _WRONG.items():
        wrong = site.value(f"select count(*) from ({sql})")
        assert wrong == 0, f"{wrong} rows: {name}"
    assert site.value("pragma integrity_check") == "ok"


_WAITING = "(select count(*) from timer t where t.job = j.id) + (select count(*) from ready r where r.job = j.id)"
_WRONG = {
    "a pending job not in exactly one of timer and ready": f"select 1 from job j where state = 'pending' and {_WAITING} <> 1",
    "a job that does not wait, in timer or ready": f"select 1 from job j where state <> 'pending' and {_WAITING} <> 0",
    "a waiting row with another attempt than its job": (
        "select 1 from (select job, attempt from timer union all select job, attempt from ready) w "
        "join job j on j.id = w.job where j.attempt <> w.attempt"
    ),
    "a live job without exactly one live row of its attempt": (
        "select 1 from job j where state in ('assigned', 'running') "
        "and (select count(*) from live l where l.job = j.id and l.attempt = j.attempt) <> 1"
    ),
    "a live row without a live job": (
        "select 1 from live l left join job j on j.id = l.job where j.state is null or j.state not in ('assigned', 'running')"
    ),
    "an ended job not listed exactly once": (
        "select 1 from job j where state in ('completed', 'failed', 'cancelled') and (select count(*) from finished f "
        "where f.job = j.id and f.state = j.state and f.finished_at = j.finished_at and f.tenant = j.tenant) <> 1"
    ),
    "a listed job that has not ended": (
        "select 1 from finished f left join job j on j.id = f.job "
        "where j.state is null or j.state not in ('completed', 'failed', 'cancelled')"
    ),
    "a job without its arguments": "select 1 from job j left join spec s on s.job = j.id where s.job is null",
    "a limit held by a job that does not run": (
        "select 1 from held h left join job j on j.id = h.job where j.state is null or j.state not in ('assigned', 'running')"
    ),
    "a cancel request for a job that does not run": (
        "select 1 from cancel c left join job j on j.id = c.job where j.state is null or j.state not in ('assigned', 'running')"
    ),
    "an ended job that its schedule counts as active": (
        "select 1 from active a left join job j on j.id = a.job "
        "where j.state is null or j.state in ('completed', 'failed', 'cancelled')"
    ),
    "an occurrence whose job is gone": (
        "select 1 from occurrence o left join job j on j.id = o.job where j.id is null"
    ),
    "a claim whose job is gone": "select 1 from claim c left join job j on j.id = c.job where j.id is null",
}
