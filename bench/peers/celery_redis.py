"""Celery with a Redis broker, in its default settings: prefork pool, early acknowledgement, no result backend."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from celery import Celery  # type: ignore[import, unused-ignore]

from bench.peers import effects
from bench.peers.processes import Group, module_argv, tail
from bench.peers.protocol import Timer
from bench.peers.redis_server import RedisServer, durability


def make_app(url: str) -> Any:
    """The application, the same in the bench and in the worker."""
    app = Celery("bench", broker=url)
    app.conf.broker_connection_retry_on_startup = True  # the default, said aloud to keep a warning away
    app.task(name="bench.run")(effects.run)
    return app


class CeleryRedis:
    """Celery behind the verbs of the bench."""

    name = "celery-redis"
    submit_jobs = 2_000
    drain_jobs = 3_000
    quiet_s = 20.0

    def __init__(self) -> None:
        self._app: Any = None
        self._server: RedisServer | None = None
        self._workers: Group | None = None

    @property
    def settings(self) -> str:
        return (
            f"1 worker, prefork x{os.cpu_count()} (default: CPU count), prefetch multiplier 4 (default), early ack "
            "(default), no result backend; prefetched unacked messages of a dead worker return only after the "
            "visibility timeout of 1 h (default, not waited for); bulk = apply_async on one shared producer, as there "
            f"is no bulk call; Redis: {durability()}"
        )

    def setup(self, workdir: Path, stamps: Path) -> None:
        self._workdir, self._stamps, self._log = workdir, stamps, workdir / "worker.log"
        self._server = RedisServer(workdir)
        self._app = make_app(self._server.url)
        self._task = self._app.tasks["bench.run"]

    def submit(self, payloads: Sequence[str]) -> None:
        for payload in payloads:
            self._task.delay(payload)

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        with self._app.producer_pool.acquire(block=True) as producer:
            for payload in payloads:
                self._task.apply_async((payload,), producer=producer)

    def submit_at(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            self._task.apply_async((timer.payload,), eta=datetime.fromtimestamp(timer.due_ms / 1000, UTC))

    def start_workers(self) -> None:
        assert self._server is not None
        self._workers = Group(
            module_argv("bench.peers.celery_redis", self._server.url),
            cwd=self._workdir,
            log=self._log,
            env={effects.ENV: str(self._stamps)},
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
        if self._app is not None:
            self._app.close()
            self._app = None
        if self._server is not None:
            self._server.stop()
            self._server = None

    def log_tail(self) -> str:
        return tail(self._log)


if __name__ == "__main__":
    make_app(sys.argv[1]).worker_main(["worker", "--loglevel=WARNING"])
