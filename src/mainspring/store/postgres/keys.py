"""Keys and join tokens (see `store.service.Keys`)."""

from collections.abc import Sequence

from msgspec import structs

from mainspring.store.postgres.database import Tx
from mainspring.store.rows import key_of
from mainspring.store.service import KeyRecord


async def insert_keys(tx: Tx, keys: Sequence[KeyRecord], spend: str | None) -> bool:
    """Two who take one id at once meet at its key; the one who lost runs again and sees the other's."""
    if any(await read_keys(tx, [key.id for key in keys])):
        return False
    if spend is not None:
        if not await tx.fetch("spend_key", spend, tx.now):
            return False
        tx.topics.add("key")
    if keys:
        ordered = sorted(keys, key=lambda key: key.id)
        await tx.fetch("insert_keys", *map(list, zip(*map(structs.astuple, ordered), strict=True)))
    return True


async def read_keys(tx: Tx, ids: Sequence[str]) -> list[KeyRecord | None]:
    found = {row[0]: key_of(row) for row in await tx.fetch("read_keys", ids)}
    return [found.get(id_) for id_ in ids]


async def list_keys(tx: Tx, tenant: str | None) -> list[KeyRecord]:
    return [key_of(row) for row in await tx.fetch("list_keys", tenant)]


async def revoke_keys(tx: Tx, ids: Sequence[str]) -> int:
    tx.topics.add("key")
    return len(await tx.fetch("revoke_keys", sorted(ids), tx.now))
