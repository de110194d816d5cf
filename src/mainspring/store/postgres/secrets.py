"""Secrets, and whatever else is sealed (see `store.service.Secrets`)."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from mainspring.core.secret import SEALED
from mainspring.store.postgres.database import Tx
from mainspring.store.rows import secret_of
from mainspring.store.service import SealedIn, SealedRow, SecretRecord

_LISTED: dict[SealedIn, str] = {"secret": "sealed_secret", "arguments": "sealed_arguments", "result": "sealed_result"}
_REPLACED: dict[SealedIn, str] = {
    "secret": "replace_secret",
    "arguments": "replace_arguments",
    "result": "replace_result",
}
_FIRST = bytes(16)  # no job has this id


async def put_secrets(tx: Tx, secrets: Sequence[SecretRecord]) -> None:
    """The last one of a name counts."""
    tx.topics.add("secret")
    put = {(secret.tenant, secret.name): secret for secret in secrets}
    await tx.fetch("put_secrets", *_columns([structs.astuple(put[name]) for name in sorted(put)], 6))


async def read_secrets(tx: Tx, wanted: Sequence[tuple[str, str]]) -> list[SecretRecord | None]:
    found = {(row[0], row[1]): secret_of(row) for row in await tx.fetch("read_secrets", *_columns(wanted, 2))}
    return [found.get(name) for name in wanted]


async def list_secrets(tx: Tx, tenant: str | None) -> list[SecretRecord]:
    return [secret_of(row) for row in await tx.fetch("list_secrets", tenant)]


async def delete_secrets(tx: Tx, names: Sequence[tuple[str, str]]) -> int:
    tx.topics.add("secret")
    return len(await tx.fetch("delete_secrets", *_columns(sorted(names), 2)))


async def list_sealed(
    tx: Tx, where: SealedIn, mark: bytes, after: str, limit: int
) -> tuple[list[SealedRow], str | None]:
    if where == "secret":
        rows = await tx.fetch(_LISTED[where], after, limit, mark)
    else:
        behind = bytes.fromhex(after) or _FIRST
        rows = [(job.hex(), data) for job, data in await tx.fetch(_LISTED[where], behind, limit, mark, SEALED)]
    found = [SealedRow(place, sealed) for place, sealed in rows if sealed is not None]
    return found, rows[-1][0] if len(rows) == limit else None


async def replace_sealed(tx: Tx, where: SealedIn, rows: Sequence[tuple[SealedRow, bytes]], key: str) -> int:
    """In the order of their places, as everybody locks them."""
    ordered = sorted(rows, key=lambda item: item[0].place)
    places: list[Any] = [row.place for row, _ in ordered]
    if where != "secret":
        places = [bytes.fromhex(place) for place in places]
    noted = (key,) if where == "secret" else ()
    sealed = ([row.sealed for row, _ in ordered], [fresh for _, fresh in ordered])
    return len(await tx.fetch(_REPLACED[where], places, *sealed, *noted))


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[place] for row in rows] for place in range(width)]
