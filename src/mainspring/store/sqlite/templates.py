"""Templates and their versions (see `store.service.Templates`)."""

from collections.abc import Sequence
from typing import Any

from msgspec import json

from mainspring.store.service import ALL_TENANTS, TemplateRecord
from mainspring.store.sqlite.database import Q, Reader
from mainspring.store.sqlite.writer import Tx

_decode_tenants = json.Decoder(tuple[str, ...]).decode


def put_templates(tx: Tx, records: Sequence[TemplateRecord]) -> list[bool]:
    """All of them, or none where one of them does not follow."""
    answers = [_put(tx, record) for record in records]
    if not all(answers):
        tx.execute("rollback to operation")
    return answers


def _put(tx: Tx, r: TemplateRecord) -> bool:
    last = tx.execute(Q["last_template_version"], (r.tenant, r.name)).get or 0
    if r.version != last + 1:
        return False
    version = (r.tenant, r.name, r.version, r.definition, r.created_at, r.created_by)
    tx.execute(Q["insert_template_version"], version)
    tx.execute(Q["put_template"], (r.tenant, r.name, r.version, _encode(r.shared_with)))
    return True


def list_templates(connection: Reader, tenant: str) -> list[TemplateRecord]:
    return [_record(row) for row in connection.execute(Q["list_templates"], (tenant, ALL_TENANTS))]


def list_template_versions(connection: Reader, tenant: str, name: str) -> list[TemplateRecord]:
    return [_record(row) for row in connection.execute(Q["list_template_versions"], (tenant, name))]


def set_template(tx: Tx, tenant: str, name: str, current: int | None, shared_with: tuple[str, ...] | None) -> bool:
    tx.execute(Q["set_template"], (tenant, name, current, None if shared_with is None else _encode(shared_with)))
    return tx.connection.changes() == 1


def delete_template(tx: Tx, tenant: str, name: str) -> bool:
    tx.execute(Q["delete_template_versions"], (tenant, name))
    tx.execute(Q["delete_template"], (tenant, name))
    return tx.connection.changes() == 1


def _encode(tenants: tuple[str, ...]) -> str:
    return json.encode(tenants).decode()


def _record(row: Sequence[Any]) -> TemplateRecord:
    *plain, shared_with = row
    fields = dict(zip(TemplateRecord.__struct_fields__[:-1], plain, strict=True))
    return TemplateRecord(**fields, shared_with=_decode_tenants(shared_with))
