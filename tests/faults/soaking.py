"""Faults at random: the processes that work, and what happens to them, to the network and to the database.

What happens is drawn from the seed alone: which fault, to whom, for how long, when the next one comes. Faults overlap: each is
begun and ended at its time, while the others go on.
"""

import random
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from faults.harness import Child, Site, until
from mainspring import App

Start = Callable[[], Child]
Tell = Callable[[str], None]
_POLL_S = 0.1


class Fault(Struct):
    """From when to when; `pid` 0: to all alike, as the database and the network are."""

    kind: str
    pid: int
    began_s: float
    ended_s: float


class Shared(NamedTuple):
    """A fault that strikes everybody: how it begins and how it ends. One of them at a time."""

    kind: str
    begin: Callable[[], object]
    end: Callable[[], object]


class Process:
    """A place for one process, which is started again whenever it has ended."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self.child = start()
        self.stricken = False
        self._was_ready = False

    @property
    def is_ready(self) -> bool:
        return self._was_ready or self.child.has_said("ready")

    def start(self) -> None:
        self.child.close()
        self.child = self._start()
        self.stricken = self._was_ready = False

    def ready(self) -> None:
        if not self._was_ready:
            self.child.hear("ready")
            self._was_ready = True


class Soak:
    """`starts` make the processes, without waiting for them. `pause_s`: between two faults, on average. `longest_s`: of a fault."""

    def __init__(
        self, site: Site, seed: int, starts: Sequence[Start], shared: Sequence[Shared], pause_s: float, longest_s: float
    ) -> None:
        self._site = site
        self._random = random.Random(seed)
        self._processes = [Process(start) for start in starts]
        self._shared = shared
        self._pause_s = pause_s
        self._longest_s = longest_s
        self._is_struck = False  # by a fault that all share
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.faults: list[Fault] = []
        self._ready()

    def suffer(self, seconds: float, tell: Tell) -> None:
        began_s = told_s = time.monotonic()
        while (now_s := time.monotonic()) - began_s < seconds:
            if now_s - told_s >= 10:
                told_s = now_s
                runs = len(self._site.effects())  # the database may be away, and this is who brings it back
                tell(f"{now_s - began_s:.0f} of {seconds:.0f} s, {len(self.faults)} faults, {runs} runs of jobs")
            self._wait(self._random.uniform(0.0, 2 * self._pause_s))
            self._strike()

    def heal(self) -> None:
        """Everything that was begun is ended, and everybody is there again."""
        while self._later:
            begun, self._later = self._later, []
            for _, end in begun:
                end()
            time.sleep(_POLL_S)
        self._ready()
        assert all(process.child.alive for process in self._processes), "a process ended by itself"

    def _ready(self) -> None:
        for process in self._processes:
            process.ready()

    def _wait(self, seconds: float) -> None:
        """Until then, end what has to be ended on the way."""
        until_s = time.monotonic() + seconds
        while self._later and self._later[0][0] <= until_s:
            at_s, action = self._later.pop(0)
            time.sleep(max(0.0, at_s - time.monotonic()))
            action()
        time.sleep(max(0.0, until_s - time.monotonic()))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, action))
        self._later.sort(key=lambda entry: entry[0])

    def _strike(self) -> None:
        """Drawn in full before anything is looked at, so that the draws of a seed are always the same."""
        process = self._random.choice(self._processes)
        kind = self._random.choice(["kill", "kill", "freeze", "freeze", "stop", *self._shared])
        seconds = self._longest_s * self._random.random() ** 2  # more short ones than long ones
        if isinstance(kind, Shared):
            if not self._is_struck:
                self._strike_all(kind, seconds)
        elif not process.stricken:
            process.stricken = True
            getattr(self, f"_{kind}")(process, seconds)

    def _strike_all(self, shared: Shared, seconds: float) -> None:
        self._is_struck = True
        fault = self._note(shared.kind, 0)
        shared.begin()

        def end() -> None:
            shared.end()
            fault.ended_s = time.monotonic()
            self._is_struck = False

        self._after(seconds, end)

    def _kill(self, process: Process, seconds: float) -> None:
        fault = self._note("kill", process.child.pid)
        process.child.kill()
        fault.ended_s = time.monotonic()
        self._after(seconds, process.start)

    def _stop(self, process: Process, seconds: float) -> None:
        """As a deployment does. It has its grace to end, and longer where the database is away. One that has only begun to start
        may not listen yet, and then the signal ends it at once."""
        codes = {0} if process.is_ready else {0, -signal.SIGTERM}
        fault = self._note("stop", process.child.pid)
        process.child.signal(signal.SIGTERM)

        def start() -> None:
            if process.child.alive:
                self._after(_POLL_S, start)
                return
            code = process.child.wait()
            assert code in codes, f"{process.child.name} ended with {code}: {process.child.errors()}"
            fault.ended_s = time.monotonic()
            process.start()

        self._after(seconds, start)

    def _freeze(self, process: Process, seconds: float) -> None:
        fault = self._note("freeze", process.child.pid)
        self._site.freeze(process.child)

        def thaw() -> None:
            process.child.signal(signal.SIGCONT)
            fault.ended_s = time.monotonic()
            process.stricken = False

        self._after(seconds, thaw)

    def _note(self, kind: str, pid: int) -> Fault:
        now_s = time.monotonic()
        self.faults.append(Fault(kind, pid, now_s, now_s))
        return self.faults[-1]


async def _pause_all(app: App) -> None:
    for schedule in await app.schedules.list():
        await app.schedules.pause(schedule.name)


def drained(site: Site) -> None:
    """Nothing fires any more, every job has ended, and nothing is live: nobody changes the tables while they are checked."""
    jobs = site.jobs()
    with jobs.app.sync as app:
        app.call(_pause_all(jobs.app))
    site.drained(180)
    until(lambda: site.value("select count(*) from live") == 0, "nothing is live")
