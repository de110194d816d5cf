"""A store with processes of several versions on it, a load, and the log of what ran."""

import asyncio
import os
import shutil
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import json

import mainspring
from contract.backends import Backend, PostgresBackend, SqliteBackend
from mainspring.core.draft import Draft
from mainspring.core.options import parse_options
from mainspring.store.contract import Store
from mainspring.store.opening import StoreSettings
from mainspring.store.queries import load_migrations
from mainspring.submit import Submitter

PATIENCE_S = 60.0
TESTS = Path(__file__).parents[1]
TODAY = Path(mainspring.__file__).parents[1]


def settings_of(backend: Backend) -> StoreSettings:
    if isinstance(backend, SqliteBackend):
        return StoreSettings(f"sqlite:///{backend.path}")
    assert isinstance(backend, PostgresBackend)
    return StoreSettings(backend.url, backend.schema)


def newest(settings: StoreSettings) -> int:
    return load_migrations(package_of(settings))[-1].number


def package_of(settings: StoreSettings) -> str:
    return f"mainspring.store.{'postgres' if settings.is_postgres else 'sqlite'}"


async def until(probe: Callable[[], bool], what: str) -> None:
    """Other processes tell nobody here: they are looked at."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not probe():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:g} s in vain: {what}"
        await asyncio.sleep(0.02)


class Site:
    """Processes on one store, each with the code of a version."""

    def __init__(self, folder: Path, settings: StoreSettings) -> None:
        self.folder = folder
        self.settings = settings
        self.log = folder / "effects.log"
        self.log.touch()

    def next_version(self, sql: str, works_with: int) -> Path:
        """The code of today with one migration more. `mainspring.` before a name stands for the schema, where there is one."""
        code = self.folder / "next"
        shutil.copytree(TODAY / "mainspring", code / "mainspring", ignore=shutil.ignore_patterns("__pycache__"))
        folder = code.joinpath(*package_of(self.settings).split("."), "migrations")
        text = sql if self.settings.is_postgres else sql.replace("mainspring.", "")
        (folder / f"{newest(self.settings) + 1:04}_next.sql").write_text(f"-- works with: {works_with}\n{text}")
        return code

    async def command(self, *arguments: str, code: Path = TODAY) -> tuple[int | None, str, str]:
        """`mainspring …` on this store: its exit code, and what it said."""
        environ = self._environ(code) | {"MAINSPRING_STORE": self.settings.url}
        if self.settings.is_postgres:
            environ["MAINSPRING_SCHEMA"] = self.settings.schema
        command = (sys.executable, "-c", "import sys; from mainspring.cli import main; sys.exit(main())", *arguments)
        process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE, stderr=PIPE)
        out, errors = await process.communicate()
        return process.returncode, out.decode(), errors.decode()

    @asynccontextmanager
    async def node(self, name: str, code: Path = TODAY, *, lease_s: float | None = None) -> AsyncIterator[None]:
        """A node and its worker, at work; at the end of the block it leaves in good order. `lease_s`: instead of the real one."""
        errors = self.folder / f"{name}.stderr"
        config = json.encode(self.settings).decode()
        lease = () if lease_s is None else (str(lease_s),)
        with errors.open("wb") as said:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "upgrade.child_node", config, str(self.log), name, *lease),
                env=self._environ(code),
                stdin=PIPE,
                stdout=PIPE,
                stderr=said,
            )
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert process.stdout is not None
                assert await process.stdout.readline() == b"ready\n", errors.read_text()
            yield
            async with asyncio.timeout(PATIENCE_S):
                _end_input(process)
                assert await process.wait() == 0, errors.read_text()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _environ(self, code: Path) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": f"{code}:{TESTS}"}

    def ran(self) -> Counter[int]:
        """How often each job ran."""
        return Counter(int(line.split()[0]) for line in self.log.read_text().splitlines())

    def busy(self, *names: str) -> Callable[[], bool]:
        """Has each of these run something since now?"""
        start = self.log.stat().st_size

        def probe() -> bool:
            with self.log.open() as log:
                log.seek(start)
                return set(names) <= {line.split()[1] for line in log.read().splitlines()}

        return probe


def _end_input(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()


class Load:
    """Jobs that keep coming, each with its number; those that were acknowledged."""

    def __init__(self, store: Store) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self._submitter = Submitter(store, store.clock)
        self._task: asyncio.Task[None] | None = None

    async def submit(self, count: int, **options: Any) -> None:
        first, given = len(self.acknowledged), parse_options(**options)
        drafts = [Draft("work", b'{"number":%d}' % number, given) for number in range(first, first + count)]
        for number, answer in enumerate(await self._submitter.submit(drafts), first):
            self.acknowledged[number] = answer.id

    async def __aenter__(self) -> "Load":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """The last submit is acknowledged, or its error is raised."""
        assert self._task is not None
        task, self._task = self._task, None
        await task

    async def _run(self) -> None:
        while self._task is not None:
            await self.submit(5)
            await asyncio.sleep(0.01)  # a load, not a race: everything must have ended at the end of the test
