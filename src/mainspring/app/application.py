"""`App`: what an application declares, and the door to its store.

An app is made at import time and holds declarations only. `async with app` opens the store: then jobs can be submitted, read and
cancelled. `app.run()` adds a node and a worker in this process, until stopped. Both may happen in any number of processes.
"""

import asyncio
import getpass
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from msgspec import UNSET, json

from mainspring.access.audit import Actor
from mainspring.app.blocking import SyncApp
from mainspring.app.function import JobFunction
from mainspring.app.handle import Job
from mainspring.app.limits import parse_limit
from mainspring.app.remote_running import RemoteRunning
from mainspring.app.running import Running, open_patiently
from mainspring.app.types import TypeFaces
from mainspring.app.within import Connection
from mainspring.client.settings import ServerSettings
from mainspring.client.verbs import Remote
from mainspring.config import RunSettings, app_settings, join_token_setting, run_settings
from mainspring.core.draft import Draft
from mainspring.core.job import DEFAULT_TENANT, Limit, Resources
from mainspring.core.options import (
    Duration,
    GivenOptions,
    check_labels,
    check_name,
    parse_options,
    refuse_once,
    tenant_of,
)
from mainspring.core.partition import parse_id
from mainspring.core.schedule import read_rule
from mainspring.errors import InvalidError, NotRunningError, StoreError
from mainspring.execute.context import Context
from mainspring.execute.hooks import Hooks
from mainspring.execute.registry import Kind, Registry
from mainspring.execute.types.catalogue import find_kind, refuse_reserved, with_types
from mainspring.objects.place import ObjectPlace
from mainspring.runtime.clock import Clock
from mainspring.secrets.keys import read_master_keys
from mainspring.store.contract import QueueRecord, Store, Transaction
from mainspring.store.opening import StoreSettings, open_store
from mainspring.submit import without_conflicts
from mainspring.sweep.ticker import Definition
from mainspring.verbs.declaring import ONE_JOB, DeclaredKind, DeclaredSchedule
from mainspring.verbs.engine import Engine
from mainspring.verbs.faces import Schedules, Verbs

if TYPE_CHECKING:
    from mainspring.app.serving import Serving

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

_ErrorTypes = type[BaseException] | tuple[type[BaseException], ...]


class _JobDecorator:
    """Keeps the function's signature for type checkers; a leading Context is not part of what callers give."""

    def __init__(self, register: Callable[[Callable[..., Any]], JobFunction[..., Any]]) -> None:
        self._register = register

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> JobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobFunction[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> JobFunction[..., Any]:
        return self._register(function)


class App(TypeFaces):
    """One application. `store`: where jobs live, else MAINSPRING_STORE, else sqlite:///mainspring.db.

    For postgresql:// stores: `schema` (else MAINSPRING_SCHEMA, else mainspring) holds the tables; `listen_url` (else
    MAINSPRING_LISTEN_URL) is a direct connection for wake-ups, where `store` leads through a pooler.

    With http:// or https:// it is a server that has the jobs: `key` (else MAINSPRING_KEY) says who we are, `ca_file` (else
    MAINSPRING_CA_FILE) which certificates to trust instead of the system's. Everything but transactions works as on a store.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        schema: str | None = None,
        listen_url: str | None = None,
        objects: str | None = None,
        key: str | None = None,
        ca_file: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = app_settings(
            store, schema=schema, listen_url=listen_url, objects=objects, key=key, ca_file=ca_file
        )
        if clock is not None and isinstance(self.settings, ServerSettings):
            raise InvalidError("clock", "has no effect on a server, whose store has its own: leave it out")
        self.registry = Registry()
        self.hooks = Hooks()
        self.clock = clock
        self._kinds: dict[str, DeclaredKind] = {}
        self._queues: dict[str, QueueRecord] = {}
        self._schedules: dict[str, DeclaredSchedule] = {}
        self._engine: Engine | None = None
        self._remote: Remote | None = None
        self._opened = 0
        self._opening = asyncio.Lock()
        self._running: Running | RemoteRunning | None = None
        self._stop_asked = False  # also before there is something to stop

    # declaring

    def job(
        self,
        *,
        name: str | None = None,
        pool: str | None = None,
        retry_on: _ErrorTypes | None = None,
        give_up_on: _ErrorTypes = (),
        concurrency: int | None = None,
        rate: str | None = None,
        **options: Unpack[GivenOptions],
    ) -> _JobDecorator:
        """Register a function as a kind of job.

        name: of the kind, else the function's. pool: "thread" (sync functions' default) or "process" for CPU work; async functions
        run in the event loop. retry_on, give_up_on: exception types to retry only, or never. concurrency, rate ("10/s", "100/m"):
        limits over all workers, counted for each tenant and `limit_key` apart. Everything else: as in `.options(...)`.
        """
        defaults = parse_options(**options)
        refuse_once(defaults, "belongs to one submit: use .options(...)", unique=True)
        limit = parse_limit(concurrency, rate)
        if defaults.limit_key is not UNSET and limit == Limit():
            raise InvalidError("limit_key", "has no effect without concurrency= or rate=")

        def register(function: Callable[..., Any]) -> JobFunction[..., Any]:
            kind_name = name or str(getattr(function, "__name__", ""))
            refuse_reserved("name", kind_name)
            kind = Kind(kind_name, function, pool=pool, retry_on=_types(retry_on), give_up_on=_types(give_up_on) or ())
            self.registry.add(kind)
            self._kinds[kind.name] = DeclaredKind(kind.name, defaults, limit)
            return JobFunction(self, kind, defaults, function)

        return _JobDecorator(register)

    def schedule(
        self,
        cron: str,
        *,
        name: str | None = None,
        arguments: dict[str, Any] | None = None,
        options: GivenOptions | None = None,
        **rule: Any,
    ) -> Callable[[JobFunction[P, R]], JobFunction[P, R]]:
        """Run a job at the times of a cron rule; put it above `@app.job()`. `name`: of the schedule, else the kind's.

        arguments: what each job gets. options: as in `.options(...)`. Everything else is the rule: tz, dst, days, calendar,
        on_holiday, windows, overlap, catch_up, catch_up_cap, jitter, start_at, end_at, max_runs (see the schedules guide).
        """
        parsed = read_rule({"cron": cron} | rule)

        def declare(function: JobFunction[P, R]) -> JobFunction[P, R]:
            if not isinstance(function, JobFunction):
                raise InvalidError("schedule", "goes above @app.job(): put the decorators in that order")
            refuse_once(parse_options(**(options or {})), ONE_JOB)
            draft = function.options(**(options or {})).job(**(arguments or {}))  # type: ignore[call-arg]
            definition = Definition(parsed, draft.kind, draft.arguments.decode(), draft.options)
            schedule = DeclaredSchedule(tenant_of(draft.options), check_name("name", name or draft.kind), definition)
            if schedule.id in self._schedules:
                raise InvalidError("name", f"there is a schedule {schedule.name!r} already; give this one name=…")
            self._schedules[schedule.id] = schedule
            return function

        return declare

    def queue(
        self, name: str, *, concurrency: int | None = None, rate: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        """Limit a queue over all workers: jobs at once, and starts per time ("10/s", "100/m", "1000/h").

        Without either, the limits that an earlier version of the code stored are removed.
        """
        limit = parse_limit(concurrency, rate)
        self._queues[f"{tenant}/{name}"] = QueueRecord(
            check_name("tenant", tenant), check_name("queue", name), False, limit
        )

    def on_start(self, hook: F) -> F:
        """Call this when a worker starts, before its first job; sync or async."""
        self.hooks.on_start.append(hook)
        return hook

    def on_stop(self, hook: F) -> F:
        """Call this when a worker has run its last job."""
        self.hooks.on_stop.append(hook)
        return hook

    def on_success(self, hook: F) -> F:
        """Call this with (assignment, result) after each attempt that succeeded."""
        self.hooks.on_success.append(hook)
        return hook

    def on_failure(self, hook: F) -> F:
        """Call this with (assignment, failure) after each attempt that failed."""
        self.hooks.on_failure.append(hook)
        return hook

    # opening

    async def __aenter__(self) -> "App":
        loop = asyncio.get_running_loop()
        if self._opened == 0:
            self._loop = loop
        elif self._loop is not loop:
            raise NotRunningError(
                "the app is open in another event loop: `async with app` and `app.sync` exclude each other"
            )
        async with self._opening:
            if self._opened == 0:
                await self._open()
            self._opened += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._opened -= 1
        if self._opened == 0:
            await self._close()

    async def _open(self) -> None:
        if isinstance(self.settings, ServerSettings):
            self._remote = Remote(self.settings.open())
        else:
            keys = read_master_keys(os.environ)
            store = await open_store(self.settings, self.clock)
            self._engine = Engine(store, ObjectPlace(self.settings.objects_place, store.agree), keys=keys)
            try:
                await self._engine.sealing.look()
            except BaseException:
                await self._close()
                raise

    async def _close(self) -> None:
        engine, self._engine = self._engine, None
        remote, self._remote = self._remote, None
        if engine is not None:
            engine.close()
            engine.objects.close()
            await engine.store.close()
        if remote is not None:
            await remote.close()

    @property
    def store_settings(self) -> StoreSettings:
        """Where the store is; an error where there is none, because a server has it."""
        if isinstance(self.settings, ServerSettings):
            raise self._no_store()
        return self.settings

    @store_settings.setter
    def store_settings(self, settings: StoreSettings) -> None:
        self.settings = settings

    @property
    def engine(self) -> Engine:
        """What does the work over the open store."""
        if self._engine is None:
            raise self._not_open() if self._remote is None else self._no_store()
        return self._engine

    @property
    def store(self) -> Store:
        return self.engine.store

    @property
    def remote(self) -> Remote:
        """The server, where `store` is the URL of one."""
        if self._remote is None:
            raise self._not_open()
        return self._remote

    def verbs(self, tenant: str | None = None) -> Verbs:
        """Everything that can be asked, for one tenant or for all of them; at a server, all that the key may act for."""
        return self.engine.verbs(tenant, self.actor) if self._remote is None else self._remote.verbs(tenant)

    def own_verbs(self) -> Verbs:
        """For the tenant that is meant where none is named: the key's at a server, else the default one."""
        return self.verbs(DEFAULT_TENANT) if self._remote is None else self._remote.own()

    def _not_open(self) -> NotRunningError:
        return NotRunningError("the app is not open: use `async with app:` (or `with app.sync:`)")

    def _no_store(self) -> StoreError:
        return StoreError(f"this needs the store itself, and the app is at a server: {self.settings.place}")

    @cached_property
    def actor(self) -> Actor:
        """Who stands in the audit record for what is done here."""
        return Actor(f"{_user()}@{socket.gethostname()}", "app")

    # submitting and reading

    async def submit_many(self, drafts: Iterable[Draft], *, within: Connection | None = None) -> list[Job[Any]]:
        """Submit what `function.job(...)` made; durable when this returns. Nothing is submitted if one draft is no draft.

        within: a transaction that you have open, as in `function.within(...)`; then all of them exist if and when you commit.
        """
        return await self._submit(drafts, within)

    async def submit_blocking(self, drafts: Iterable[Draft], within: object) -> list[Job[Any]]:
        """For `app.sync`: inside a transaction of a connection that blocks; waits for nothing but that, so needs no event loop."""
        return await self._submit(drafts, within, blocking=True)

    async def _submit(self, drafts: Iterable[Draft], within: object, *, blocking: bool = False) -> list[Job[Any]]:
        verbs = self.verbs()  # says that the app is not open, before anything is made
        wanted = drafts if isinstance(drafts, list) else list(drafts)
        for draft in wanted:
            if type(draft) is not Draft:
                raise InvalidError("drafts", f"expected what function.job(...) makes, got {type(draft).__name__}")
        if within is not None and self._remote is not None:
            raise InvalidError("within", "needs the store itself: a server's jobs cannot be part of your transaction")
        if within is None:
            answers = without_conflicts(wanted, await verbs.jobs.submit(wanted))
        else:
            answers = await self.engine.submitter.submit_within(within, wanted, blocking=blocking)
        return [Job(self, answer.id, answer.existed) for answer in answers]

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction for your own tables and your submits together.

            async with app.transaction() as tx:
                await tx.execute("insert into orders (number, total) values ($1, $2)", 7, 1250)
                await confirm_order.within(tx).submit(7)

        Committed, and durable, when the block ends; rolled back when it raises. On SQLite your tables live in the same file, and
        nobody else can write while the block runs: keep it short. On PostgreSQL you can also submit inside a transaction on
        your own connection, see `function.within`.
        """
        return self.store.transaction()

    def get(self, id: str) -> Job[Any]:
        """The handle of a job by its id."""
        return Job(self, parse_id(id))

    @cached_property
    def sync(self) -> SyncApp:
        """The same calls without asyncio."""
        return SyncApp(self)

    @property
    def schedules(self) -> Schedules:
        """Pause, resume, trigger, backfill, look at schedules of the default tenant; on a server, of the key's."""
        return self.own_verbs().schedules

    def decode_result(self, kind: str, data: bytes | None) -> Any:
        known = find_kind(self.registry, kind)
        if known is not None:
            return known.decode_result(data)
        return None if data is None else json.decode(data)

    # running

    async def run(
        self,
        *,
        slots: int | None = None,
        grace: Duration | None = None,
        retention: Duration | None = None,
        failed_retention: Duration | None = None,
        log_limit: int | None = None,
        labels: Iterable[str] = (),
        types: str | Iterable[str] | None = None,
        resources: Resources | None = None,
        signals: bool = True,
        ready: Callable[[], Awaitable[None] | None] | None = None,
        serving: "Serving | None" = None,
        join_token: str | None = None,
    ) -> None:
        """Schedule and execute in this process until `stop`, SIGTERM or SIGINT; then drain for up to `grace`.

        slots: jobs at once. log_limit: MiB that are kept of what one attempt writes. labels: what jobs with `labels=` ask for.
        types: the job types to run beside the functions, such as ["script", "http"], or "all" that this machine has; else
        MAINSPRING_TYPES, else none, because whoever may submit jobs may then use them. signals: handle SIGTERM and SIGINT.
        ready: called when work begins. serving: the HTTP API, to be served beside it. A store that cannot be reached yet is
        waited for.

        At a server it only executes: the server schedules. join_token (else MAINSPRING_JOIN_TOKEN) is exchanged for a key, where
        there is none.
        """
        settings = run_settings(
            slots=slots,
            grace=grace,
            retention=retention,
            failed_retention=failed_retention,
            log_limit=log_limit,
            types=types,
        )
        if self._running is not None:
            raise NotRunningError("this app runs already; one run per process")
        labelled = check_labels(labels)
        self._stop_asked = False
        registry = await asyncio.to_thread(with_types, self.registry, settings.types)
        await open_patiently(self)
        try:
            self._running = self._new_running(settings, registry, labelled, resources, serving, join_token)
            if self._stop_asked:
                self._running.stop()
            await self._running.run(signals=signals, ready=ready)
        finally:
            self._running = None
            await self.__aexit__()

    def _new_running(
        self,
        settings: RunSettings,
        registry: Registry,
        labels: frozenset[str],
        resources: Resources | None,
        serving: "Serving | None",
        token: str | None,
    ) -> Running | RemoteRunning:
        if not isinstance(self.settings, ServerSettings):
            if token is not None:
                raise InvalidError("join_token", "has no effect on a store: leave it out, or name a server")
            return Running(self, settings, registry, labels, resources, serving)
        if serving is not None:
            raise InvalidError("serving", "needs the store itself, and the app is at a server")
        return RemoteRunning(self, self.settings, settings, registry, labels, resources, join_token_setting(token))

    def stop(self) -> None:
        """Ask `run` to drain and return."""
        self._stop_asked = True
        if self._running is not None:
            self._running.stop()

    @property
    def declared(self) -> tuple[Sequence[DeclaredKind], Sequence[QueueRecord], Sequence[DeclaredSchedule]]:
        return list(self._kinds.values()), list(self._queues.values()), list(self._schedules.values())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as somebody without a name
        return str(os.getuid())


def _types(given: _ErrorTypes | None) -> tuple[type[BaseException], ...] | None:
    if given is None or isinstance(given, tuple):
        return given
    return (given,)
