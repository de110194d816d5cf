"""The checks of `mainspring doctor` that ask a PostgreSQL server: can we work there, is it safe, and what slows it down.

Everything is read, nothing is changed, and no special rights are needed; what this role cannot see is said. asyncpg is imported
when there is something to ask.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from mainspring.cli.checks import FAIL, OK, WARN, Check
from mainspring.cli.opening import how_to_make
from mainspring.cli.words import count, duration, listed
from mainspring.errors import StoreVersionError
from mainspring.store.opening import StoreSettings
from mainspring.store.queries import load_migrations
from mainspring.store.url import shown_url

_OLDEST_SERVER = 15
_OLD = "5 minutes"
_MANY_DEAD = 200_000
_FULL = 0.8
_FAR_S = 60.0
_HEARD_WITHIN_S = 2.0
_HIDDEN = "<insufficient privilege>"
_SEE_ALL = "grant pg_monitor to this role to see the rest"

Look = Callable[[Any, StoreSettings], Coroutine[Any, Any, Check]]


async def check_database(settings: StoreSettings) -> AsyncIterator[Check]:
    """From the outside in; ends at the first thing that makes the rest pointless."""
    try:
        from mainspring.store.postgres.database import connect
    except ModuleNotFoundError:
        yield Check("driver", FAIL, "asyncpg is not installed", "pip install 'mainspring[postgres]'")
        return
    try:
        connection = await connect(settings.url, pooled=True)
    except Exception as error:
        yield _unreachable(settings.url, error)
        return
    try:
        yield Check("store", OK, settings.place)
        for look in (_check_server, _check_role, _check_schema):
            found = await look(connection, settings)
            yield found
            if found.status == FAIL:
                return
        for look in _LOOKS:
            yield await look(connection, settings)
    finally:
        with contextlib.suppress(Exception):
            await connection.close(timeout=1)


def _unreachable(url: str, error: Exception, name: str = "store") -> Check:
    import asyncpg

    place = shown_url(url)
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return Check(
                name,
                FAIL,
                f"{place}: {error}",
                "check the user, the password (also PGPASSWORD, ~/.pgpass) and pg_hba.conf",
            )
        case asyncpg.InvalidCatalogNameError():
            return Check(name, FAIL, f"{place}: {error}", "create the database, or name another one")
        case asyncpg.TooManyConnectionsError():
            return Check(name, FAIL, f"{place}: {error}", "raise max_connections, or put a pooler in front")
        case asyncpg.CannotConnectNowError():
            return Check(name, FAIL, f"{place}: {error}", "wait until the server has started")
        case ConnectionRefusedError():
            return Check(name, FAIL, f"nobody listens at {place}", "start the server, or check host and port")
        case TimeoutError():
            return Check(name, FAIL, f"{place} does not answer", "check host, port and firewall")
        case OSError():
            return Check(name, FAIL, f"{place}: {error.strerror or error}", "check host and port")
    return Check(name, FAIL, f"{place}: {type(error).__name__}: {error}", "check the URL")


# what makes work impossible


async def _check_server(connection: Any, settings: StoreSettings) -> Check:
    number = int(await connection.fetchval("select current_setting('server_version_num')"))
    shown = await connection.fetchval("select current_setting('server_version')")
    if number < _OLDEST_SERVER * 10_000:
        return Check("server", FAIL, f"PostgreSQL {shown}", f"upgrade it to {_OLDEST_SERVER} or newer")
    if await connection.fetchval("select pg_is_in_recovery()"):
        return Check("server", FAIL, f"PostgreSQL {shown}, a standby: it can only be read", "name the primary")
    if await connection.fetchval("select current_setting('default_transaction_read_only')") == "on":
        found = f"PostgreSQL {shown}, and default_transaction_read_only is on"
        return Check("server", FAIL, found, "turn it off for this role or database")
    return Check("server", OK, f"PostgreSQL {shown}")


_RIGHTS = """
select c.relname, r.name from pg_class c join pg_namespace n on n.oid = c.relnamespace
cross join unnest(array['select', 'insert', 'update', 'delete']) r (name)
where n.nspname = $1 and c.relkind in ('r', 'p') and not has_table_privilege(c.oid, r.name) order by 1, 2
"""


async def _check_role(connection: Any, settings: StoreSettings) -> Check:
    role = await connection.fetchval("select current_user")
    if await connection.fetchval("select to_regnamespace($1)", f'"{settings.schema}"') is None:
        if not await connection.fetchval("select has_database_privilege(current_database(), 'create')"):
            found = f"{role} may not create a schema here, and there is no schema {settings.schema}"
            return Check("role", FAIL, found, f"as the owner: create schema {settings.schema} authorization {role}")
        return Check("role", OK, f"{role}, who may create the schema")
    if not await connection.fetchval("select has_schema_privilege($1, 'usage')", settings.schema):
        found = f"{role} may not use the schema {settings.schema}"
        return Check("role", FAIL, found, f"grant usage on schema {settings.schema} to {role}, or connect as its owner")
    lacking = [f"{right} on {table}" for table, right in await connection.fetch(_RIGHTS, settings.schema)]
    if lacking:
        todo = f"grant select, insert, update, delete on all tables in schema {settings.schema} to {role}"
        return Check("role", FAIL, f"{role} lacks {listed(lacking, 4)}", todo)
    return Check("role", OK, f"{role}, with all rights that are needed")


async def _check_schema(connection: Any, settings: StoreSettings) -> Check:
    from mainspring.store.postgres.schema import missing, read_applied

    applied = await read_applied(connection, settings.schema)
    if not applied:
        return Check("schema", FAIL, f"there is no store in schema {settings.schema}", how_to_make(settings))
    newest, ours = applied[-1].number, load_migrations("mainspring.store.postgres")[-1].number
    try:
        behind = missing(applied, settings.place)
    except StoreVersionError as error:
        todo = "upgrade Mainspring here" if newest > ours else "restore a backup, or start a new store"
        return Check("schema", FAIL, str(error), todo)
    if behind:
        may = await connection.fetchval("select has_schema_privilege($1, 'create')", settings.schema)
        who = "" if may else " as the owner of the schema"
        return Check("schema", FAIL, f"version {newest} of {ours}", f"run `mainspring migrate`{who}")
    if newest > ours:
        found = f"version {newest}, newer than this Mainspring's {ours}, which can work with it"
        return Check("schema", WARN, found, "upgrade Mainspring here too")
    return Check("schema", OK, f"version {newest} in schema {settings.schema}")


# what makes it unsafe or slow


async def _check_wakeups(connection: Any, settings: StoreSettings) -> Check:
    from mainspring.store.postgres.database import connect, is_pooled

    pooled = await is_pooled(connection)
    if pooled and settings.listen_url is None:
        found = "behind a pooler, so that nobody can be woken: every node looks once a second"
        return Check("wake-ups", WARN, found, "set listen_url (MAINSPRING_LISTEN_URL) to a direct connection")
    url = settings.listen_url or settings.url
    try:
        direct = await connect(url)
    except Exception as error:
        return _unreachable(url, error, "wake-ups")
    try:
        if not await _is_same(connection, direct):
            todo = "let listen_url lead to the same database as the store's URL"
            return Check("wake-ups", FAIL, f"{shown_url(url)} is another database or server", todo)
        if not await _hears(direct, connection, f"{settings.schema}_doctor"):
            todo = "let listen_url lead to the server itself, not through a pooler"
            return Check("wake-ups", FAIL, f"nothing that is sent arrives at {shown_url(url)}", todo)
    finally:
        with contextlib.suppress(Exception):
            await direct.close(timeout=1)
    way = f"behind a pooler, through {shown_url(url)}" if pooled else "direct"
    return Check("wake-ups", OK, f"arrive ({way})")


async def _is_same(one: Any, other: Any) -> bool:
    which = "select current_database() || pg_postmaster_start_time()::text"
    return bool(await one.fetchval(which) == await other.fetchval(which))


async def _hears(listening: Any, sending: Any, channel: str) -> bool:
    heard = asyncio.Event()
    await listening.add_listener(channel, lambda *_: heard.set())
    await sending.execute("select pg_notify($1, '')", channel)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_HEARD_WITHIN_S):
            await heard.wait()
    return heard.is_set()


async def _check_clock(connection: Any, settings: StoreSettings) -> Check:
    before_s = time.time()
    server_s = float(await connection.fetchval("select extract(epoch from clock_timestamp())"))
    apart_s = (before_s + time.time()) / 2 - server_s
    found = f"this machine is {duration(abs(apart_s))} {'ahead of' if apart_s > 0 else 'behind'} the server"
    if abs(apart_s) > _FAR_S:
        return Check("server clock", WARN, found, "set it: jobs follow the server's clock, your logs this one")
    return Check("server clock", OK, found)


_LOSSES = {
    "fsync": "a crash of the server's machine can destroy the whole database",
    "full_page_writes": "a crash of the server's machine can destroy the whole database",
    "synchronous_commit": "a crash of the server loses jobs that were acknowledged just before",
}


async def _check_durability(connection: Any, settings: StoreSettings) -> Check:
    rows = await connection.fetch("select name, current_setting(name) from unnest($1::text[]) name", list(_LOSSES))
    off = [name for name, value in rows if value == "off"]
    if off:
        return Check("durability", WARN, f"off: {listed(off)}: {_LOSSES[off[0]]}", "turn it on")
    return Check("durability", OK, "what was acknowledged survives a crash")


_NOT_VACUUMED = """
select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relkind = 'r' and c.reloptions && array['autovacuum_enabled=false', 'autovacuum_enabled=off']
"""
_DEAD = """
select relname, n_dead_tup, n_live_tup from pg_stat_user_tables where schemaname = $1 order by n_dead_tup desc limit 1
"""


async def _check_vacuum(connection: Any, settings: StoreSettings) -> Check:
    if await connection.fetchval("select current_setting('autovacuum')") == "off":
        return Check("vacuum", WARN, "autovacuum is off: tables grow and get slow", "turn it on")
    left_out = [row[0] for row in await connection.fetch(_NOT_VACUUMED, settings.schema)]
    if left_out:
        todo = "alter table ... reset (autovacuum_enabled)"
        return Check("vacuum", WARN, f"autovacuum is off for {listed(left_out)}", todo)
    table, dead, live = await connection.fetchrow(_DEAD, settings.schema)
    found = f"at most {dead:,} dead rows in a table ({table})" if dead else "no dead rows"
    if dead > max(_MANY_DEAD, 2 * live):
        return Check("vacuum", WARN, found, "autovacuum does not keep up, or something below holds it back")
    return Check("vacuum", OK, found)


_TRANSACTIONS = f"""
select pid, coalesce(usename, '?'), coalesce(nullif(application_name, ''), '?'), state,
  extract(epoch from now() - xact_start)::float8
from pg_stat_activity where xact_start < now() - interval '{_OLD}' and pid <> pg_backend_pid()
  and backend_type = 'client backend' order by xact_start
"""
_PREPARED = f"select gid from pg_prepared_xacts where prepared < now() - interval '{_OLD}'"
_SLOTS = "select slot_name from pg_replication_slots where not active"


async def _check_snapshots(connection: Any, settings: StoreSettings) -> Check:
    """What keeps vacuum from removing what is gone, and lets every table of a queue grow."""
    held: list[str] = []
    for pid, user, application, state, age_s in await connection.fetch(_TRANSACTIONS):
        held.append(f"process {pid} ({user}, {application}) {state} in one transaction for {duration(age_s)}")
    todo = "end it: select pg_terminate_backend(PID)"
    if prepared := [row[0] for row in await connection.fetch(_PREPARED)]:
        held.append(f"prepared transactions nobody ends: {listed(prepared, 3)}")
        todo = todo if len(held) > 1 else "commit prepared or rollback prepared"
    if slots := [row[0] for row in await connection.fetch(_SLOTS)]:
        held.append(f"replication slots nobody uses: {listed(slots, 3)}")
        todo = todo if len(held) > 1 else "select pg_drop_replication_slot(NAME)"
    if held:
        return Check("old snapshots", WARN, f"hold back vacuum: {'; '.join(held[:3])}", todo)
    hidden = await connection.fetchval("select count(*) from pg_stat_activity where query = $1", _HIDDEN)
    if hidden:
        found = f"none that this role can see; it cannot see {count(hidden, 'session')} of other users"
        return Check("old snapshots", OK, found, _SEE_ALL)
    return Check("old snapshots", OK, "none: vacuum can do its work")


_CONNECTIONS = """
select (select sum(numbackends) from pg_stat_database)::int8, sum(setting::int8) filter (where name = 'max_connections')
  - coalesce(sum(setting::int8) filter (where name <> 'max_connections'), 0)
from pg_settings where name in ('max_connections', 'superuser_reserved_connections', 'reserved_connections')
"""


async def _check_connections(connection: Any, settings: StoreSettings) -> Check:
    used, most = await connection.fetchrow(_CONNECTIONS)
    found = f"{used} of {most} used"
    if used > _FULL * most:
        return Check(
            "connections", WARN, found, "raise max_connections, or put a pooler in front (each node takes up to 12)"
        )
    return Check("connections", OK, found)


_LOOKS: tuple[Look, ...] = (
    _check_wakeups,
    _check_clock,
    _check_durability,
    _check_vacuum,
    _check_snapshots,
    _check_connections,
)
