"""What Huey on SQLite and Huey on Redis share: all but the storage."""

import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from huey import RedisHuey, SqliteHuey  # type: ignore[import, unused-ignore]

from bench.peers import effects
from bench.peers.processes import Group, module_argv, tail
from bench.peers.protocol import Timer

SQLITE, REDIS = "sqlite", "redis"
WORKERS = os.cpu_count() or 1
COMMON_SETTINGS = (
    f"1 consumer, {WORKERS} worker processes (-k process -w CPU count; the default is 1 thread), no prefetch, a task "
    "leaves the queue when it is taken (default, no ack), scheduler interval 1 s (default and least); bulk = map(), "
    "which enqueues one by one, as there is no bulk call"
)


def make_huey(storage: str, address: str) -> Any:
    """The Huey instance at a file or a URL, the same in the bench and in the consumer."""
    if storage == SQLITE:
        return SqliteHuey("bench", filename=address)
    return RedisHuey("bench", url=address)


class HueyPeer:
    """Huey behind the verbs of the bench; a subclass says where the storage is."""

    submit_jobs = 2_000
    drain_jobs = 15_000
    quiet_s = 20.0
    storage = SQLITE

    def __init__(self) -> None:
        self._workers: Group | None = None

    def open_storage(self, workdir: Path) -> str:
        """Make the storage and return its file or URL."""
        raise NotImplementedError

    def close_storage(self) -> None:
        """Stop what `open_storage` started."""

    def setup(self, workdir: Path, stamps: Path) -> None:
        self._workdir, self._stamps, self._log = workdir, stamps, workdir / "worker.log"
        self._address = self.open_storage(workdir)
        self._task = make_huey(self.storage, self._address).task()(effects.run)

    def submit(self, payloads: Sequence[str]) -> None:
        for payload in payloads:
            self._task(payload)

    def submit_bulk(self, payloads: Sequence[str]) -> None:
        self._task.map(payloads)

    def submit_at(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            self._task.schedule((timer.payload,), eta=datetime.fromtimestamp(timer.due_ms / 1000, UTC))

    def start_workers(self) -> None:
        self._workers = Group(
            module_argv("bench.peers.huey_common", self.storage, self._address),
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
            self._workers.stop(number=signal.SIGINT)  # Huey's signal for an orderly stop
            self._workers = None

    def teardown(self) -> None:
        self.stop_workers()
        self.close_storage()

    def log_tail(self) -> str:
        return tail(self._log)


def main(storage: str, address: str) -> None:
    """Run the consumer."""
    huey = make_huey(storage, address)
    huey.task()(effects.run)
    huey.create_consumer(workers=WORKERS, worker_type="process").run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
