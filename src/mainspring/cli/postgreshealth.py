"""The checks of `mainspring doctor` that tell how a PostgreSQL server fares: is it safe, and what slows it down?"""

import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from mainspring.cli.checks import OK, WARN, Check
from mainspring.core.words import count, duration, listed
from mainspring.store.opening import StoreSettings

_OLD = timedelta(minutes=5)
_MANY_DEAD = 200_000
_FULL = 0.8
_FAR_S = 60.0
_HIDDEN = "<insufficient privilege>"
_SEE_ALL = "grant pg_monitor to this role to see the rest"

Look = Callable[[Any, StoreSettings], Coroutine[Any, Any, Check]]


async def check_clock(connection: Any, settings: StoreSettings) -> Check:
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


async def check_durability(connection: Any, settings: StoreSettings) -> Check:
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


async def check_vacuum(connection: Any, settings: StoreSettings) -> Check:
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


_TRANSACTIONS = """
select pid, coalesce(usename, '?'), coalesce(nullif(application_name, ''), '?'), state,
  extract(epoch from now() - xact_start)::float8
from pg_stat_activity where xact_start < now() - $1::interval and pid <> pg_backend_pid()
  and backend_type = 'client backend' order by xact_start
"""
_PREPARED = "select gid from pg_prepared_xacts where prepared < now() - $1::interval"
_UNSEEN = "select count(*) from pg_stat_activity where query = $1 and datid is not null"
_SLOTS = "select slot_name from pg_replication_slots where not active"


async def check_snapshots(connection: Any, settings: StoreSettings) -> Check:
    """What keeps vacuum from removing what is gone, and lets every table of a queue grow."""
    held: list[str] = []
    for pid, user, application, state, age_s in await connection.fetch(_TRANSACTIONS, _OLD):
        held.append(f"process {pid} ({user}, {application}) {state} in one transaction for {duration(age_s)}")
    todo = "end it: select pg_terminate_backend(PID)"
    if prepared := [row[0] for row in await connection.fetch(_PREPARED, _OLD)]:
        held.append(f"prepared transactions nobody ends: {listed(prepared, 3)}")
        todo = todo if len(held) > 1 else "commit prepared or rollback prepared"
    if slots := [row[0] for row in await connection.fetch(_SLOTS)]:
        held.append(f"replication slots nobody uses: {listed(slots, 3)}")
        todo = todo if len(held) > 1 else "select pg_drop_replication_slot(NAME)"
    if held:
        return Check("old snapshots", WARN, f"hold back vacuum: {'; '.join(held[:3])}", todo)
    hidden = await connection.fetchval(_UNSEEN, _HIDDEN)
    if hidden:
        found = f"none that this role can see; it cannot see {count(hidden, 'session')} of other users"
        return Check("old snapshots", OK, found, _SEE_ALL)
    return Check("old snapshots", OK, "none: vacuum can do its work")


_CONNECTIONS = """
select (select sum(numbackends) from pg_stat_database)::int8,
  sum(case name when 'max_connections' then setting::int8 else -setting::int8 end)::int8
from pg_settings where name in ('max_connections', 'superuser_reserved_connections', 'reserved_connections')
"""


async def check_connections(connection: Any, settings: StoreSettings) -> Check:
    used, most = await connection.fetchrow(_CONNECTIONS)
    found = f"{used} of {most} used"
    if used > _FULL * most:
        return Check(
            "connections", WARN, found, "raise max_connections, or put a pooler in front (each node takes up to 12)"
        )
    return Check("connections", OK, found)


HEALTH: dict[str, Look] = {
    "server clock": check_clock,
    "durability": check_durability,
    "vacuum": check_vacuum,
    "old snapshots": check_snapshots,
    "connections": check_connections,
}
