"""The checks of `mainspring doctor` that ask a PostgreSQL server: can we work there? (How it fares: `postgreshealth`.)

Everything is read, nothing is changed, and no special rights are needed; what this role cannot see is said. asyncpg is imported
when there is something to ask.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from mainspring.cli.checks import FAIL, OK, WARN, Check
from mainspring.cli.opening import how_to_make
from mainspring.cli.postgreshealth import HEALTH, Look
from mainspring.core.words import listed
from mainspring.errors import StoreVersionError
from mainspring.store.opening import StoreSettings
from mainspring.store.queries import load_migrations
from mainspring.store.url import shown_url

_OLDEST_SERVER = 15
_HEARD_WITHIN_S = 2.0


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
        for name, look in _LOOKS.items():
            found = await _asked(name, look, connection, settings)
            yield found
            if found.status == FAIL and name in _VITAL:
                return
    finally:
        with contextlib.suppress(Exception):
            await connection.close(timeout=1)


async def _asked(name: str, look: Look, connection: Any, settings: StoreSettings) -> Check:
    import asyncpg

    try:
        return await look(connection, settings)
    except asyncpg.InsufficientPrivilegeError as error:
        return Check(name, WARN, f"this role may not see it: {error}", "grant pg_monitor to this role")
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        return _unreachable(settings.url, error, name)


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


async def _check_wakeups(connection: Any, settings: StoreSettings) -> Check:
    from mainspring.store.postgres.database import connect, is_pooled

    pooled = await is_pooled(connection)
    if pooled and settings.listen_url is None:
        found = "behind a pooler, so that nobody can be woken: every node looks once a second"
        return Check("wake-ups", WARN, found, "set listen_url (MAINSPRING_LISTEN_URL) to a direct connection")
    url = settings.listen_url or settings.url
    try:
        direct = await connect(url, pooled=True)
    except Exception as error:
        return _unreachable(url, error, "wake-ups")
    try:
        if not await _is_same(connection, direct):
            todo = "let listen_url lead to the same database as the store's URL"
            return Check("wake-ups", FAIL, f"{shown_url(url)} is another database or server", todo)
        if await is_pooled(direct) or not await _hears(direct, connection, f"{settings.schema}_doctor"):
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


_LOOKS: dict[str, Look] = {
    "server": _check_server,
    "role": _check_role,
    "schema": _check_schema,
    "wake-ups": _check_wakeups,
} | HEALTH
_VITAL = ("server", "role", "schema")  # without them the rest cannot be asked
