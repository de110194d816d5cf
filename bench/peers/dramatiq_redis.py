"""Dramatiq with a Redis broker, in its default settings: processes and threads, late acknowledgement."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dramatiq  # type: ignore[import, unused-ignore]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import, unused-ignore]

from bench.peers import effects
from bench.peers.processes import Group, module_argv, tail
from bench.peers.protocol import Timer
from bench.peers.redis_server import RedisServer, durability

_ENV_URL = "BENCH_REDIS_URL"


def make_actor(url: str) -> Any:
    """The broker with its one actor, the same in the bench and in the worker."""
    broker = RedisBroker(url=url)  # type: ignore[no-untyped-call, unused-ignore]
    dramatiq.set_broker(broker)
    return dramatiq.actor(actor_name="run", broker=broker)(effects.run)


def configure() -> None:
    """What the worker command calls before it starts."""
    make_actor(os.environ[_ENV_URL])


class DramatiqRedis:
    """Dramatiq behind the verbs of the bench."""

    name = "dramatiq-redis"
    submit_jobs = 2_000
    drain_jobs = 15_000
    quiet_s = 150.0  # messages of a dead worker return 60 s after its last heartbeat, at a chance on each command

    def __init__(self) -> None:
        self._actor: Any = None
        self._server: RedisServer | None = None
        self._workers: Group | None = None

    @property
    def settings(self) -> str:
        return (
            f"{os.cpu_count()} processes x 8 threads (default), prefetch 16 per process (default), ack after the run "
            "(default), default middleware; messages of a dead worker return 60 s after its last heartbeat at a chance "
            "of 0.1% on each command (default); bulk = group.run(), which enqueues one by one, as there is no bulk "
            f"call; Redis: {durability()}"
        )

    def setup(self, workdir: Path, stamps: Path) -> None:
        self._workdir, self._stamps, self._log = workdir, stamps, workdir / "worker.log"
        self._server = RedisServer(workdir)
        self._actor = make_actor(self._server.url)

    def submit(self, payloads: Sequence[str]) -> None:
        for payload in payloads:
            self._actor.send(payload)

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        group: Any = dramatiq.group
        group([self._actor.message(payload) for payload in payloads]).run()

    def submit_at(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            delay = timer.due_ms - time.time_ns() // 1_000_000
            self._actor.send_with_options(args=(timer.payload,), delay=max(delay, 0))

    def start_workers(self) -> None:
        assert self._server is not None
        self._workers = Group(
            module_argv("dramatiq", "bench.peers.dramatiq_redis:configure"),
            cwd=self._workdir,
            log=self._log,
            env={effects.ENV: str(self._stamps), _ENV_URL: self._server.url},
        )

    def kill_workers(self) -> None:
        if self._workers is not None:
            self._workers.kill()
            self._workers = None

    def stop_workers(self) -> None:
        if self._workers is not None:
            self._workers.stop()
            self._workers = None

    def teardown(self) -> None:
        self.stop_workers()
        if self._actor is not None:
            self._actor.broker.close()
            self._actor = None
        if self._server is not None:
            self._server.stop()
            self._server = None

    def log_tail(self) -> str:
        return tail(self._log)
