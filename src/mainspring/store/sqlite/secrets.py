"""Secrets, and whatever else is sealed (see `store.service.Secrets`)."""

from collections.abc import Sequence

from msgspec import structs

from mainspring.core.secret import SEALED
from mainspring.store.rows import secret_of
from mainspring.store.service import SealedIn, SealedRow, SecretRecord
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.writer import Tx

_LISTED: dict[SealedIn, str] = {"secret": "sealed_secret", "arguments": "sealed_arguments", "result": "sealed_result"}
_REPLACED: dict[SealedIn, str] = {
    "secret": "replace_secret",
    "arguments": "replace_arguments",
    "result": "replace_result",
}


def put_secrets(tx: Tx, secrets: Sequence[SecretRecord]) -> None:
    tx.topics.add("secret")
    tx.connection.executemany(Q["put_secret"], [structs.astuple(secret) for secret in secrets])


def read_secrets(connection: Reader, wanted: Sequence[tuple[str, str]]) -> list[SecretRecord | None]:
    rows = [connection.execute(Q["read_secret"], name).fetchone() for name in wanted]
    return [None if row is None else secret_of(row) for row in rows]


def list_secrets(connection: Reader, tenant: str | None) -> list[SecretRecord]:
    return [secret_of(row) for row in connection.execute(Q["list_secrets"], (tenant,))]


def delete_secrets(tx: Tx, names: Sequence[tuple[str, str]]) -> int:
    tx.topics.add("secret")
    return sum(_changed(tx, "delete_secret", name) for name in names)


def list_sealed(
    connection: Reader, where: SealedIn, mark: bytes, after: str, limit: int
) -> tuple[list[SealedRow], str | None]:
    wanted = (after, limit, mark) if where == "secret" else (after, limit, mark, SEALED)
    rows = connection.execute(Q[_LISTED[where]], wanted).fetchall()
    found = [SealedRow(place, sealed) for place, sealed in rows if sealed is not None]
    return found, rows[-1][0] if len(rows) == limit else None


def replace_sealed(tx: Tx, where: SealedIn, rows: Sequence[tuple[SealedRow, bytes]], key: str) -> int:
    noted = (key,) if where == "secret" else ()
    return sum(_changed(tx, _REPLACED[where], (row.place, row.sealed, fresh, *noted)) for row, fresh in rows)


def _changed(tx: Tx, query: str, values: tuple[object, ...]) -> int:
    tx.execute(Q[query], values)
    return tx.connection.changes()
