"""Keys and join tokens (see `store.service.Keys`)."""

from collections.abc import Sequence

from msgspec import structs

from mainspring.store.rows import key_of
from mainspring.store.service import KeyRecord
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.writer import Tx


def insert_keys(tx: Tx, keys: Sequence[KeyRecord], spend: str | None) -> bool:
    if any(tx.execute(Q["read_key"], (key.id,)).fetchone() for key in keys):
        return False
    if spend is not None and not _end(tx, "spend_key", spend):
        return False
    tx.connection.executemany(Q["insert_key"], [structs.astuple(key) for key in keys])
    return True


def read_keys(connection: Reader, ids: Sequence[str]) -> list[KeyRecord | None]:
    rows = [connection.execute(Q["read_key"], (id_,)).fetchone() for id_ in ids]
    return [None if row is None else key_of(row) for row in rows]


def list_keys(connection: Reader, tenant: str | None) -> list[KeyRecord]:
    return [key_of(row) for row in connection.execute(Q["list_keys"], (tenant,))]


def revoke_keys(tx: Tx, ids: Sequence[str]) -> int:
    return sum([_end(tx, "revoke_key", id_) for id_ in ids])


def _end(tx: Tx, query: str, id_: str) -> bool:
    tx.execute(Q[query], (id_, tx.now))
    tx.topics.add("key")
    return tx.connection.changes() == 1
