"""Templates and their versions (see `store.service.Templates`).

The template's row is locked before its versions are looked at, so versions have no gaps. Two who make the same template at once
meet at its key; the one who lost runs again and sees the other's.
"""

from collections.abc import Sequence
from typing import Any

from mainspring.store.postgres.database import Tx
from mainspring.store.service import ALL_TENANTS, TemplateRecord

_COLUMNS = ("tenant", "name", "version", "definition", "created_at", "created_by", "current")


async def put_templates(tx: Tx, records: Sequence[TemplateRecord]) -> list[bool]:
    names = sorted({(record.tenant, record.name) for record in records})
    if not names:
        return []
    columns = ([tenant for tenant, _ in names], [name for _, name in names])
    await tx.fetch("lock_templates", *columns)
    last = {(tenant, name): version or 0 for tenant, name, version in await tx.fetch("last_versions", *columns)}
    answers = []
    for record in records:
        expected = last[record.tenant, record.name] + 1
        answers.append(record.version == expected)
        if record.version == expected:
            last[record.tenant, record.name] = expected
    if all(answers):
        await _write(tx, records)
    return answers


async def _write(tx: Tx, records: Sequence[TemplateRecord]) -> None:
    rows = [(r.tenant, r.name, r.version, r.definition, r.created_at, r.created_by) for r in records]
    await tx.fetch("insert_template_versions", *map(list, zip(*rows, strict=True)))
    for record in sorted(records, key=lambda record: (record.tenant, record.name, record.version)):
        await tx.fetch("put_template", record.tenant, record.name, record.version, record.shared_with)


async def list_templates(tx: Tx, tenant: str) -> list[TemplateRecord]:
    return [_record(row) for row in await tx.fetch("list_templates", tenant, [tenant, ALL_TENANTS])]


async def list_template_versions(tx: Tx, tenant: str, name: str) -> list[TemplateRecord]:
    return [_record(row) for row in await tx.fetch("list_template_versions", tenant, name)]


async def set_template(
    tx: Tx, tenant: str, name: str, current: int | None, shared_with: tuple[str, ...] | None
) -> bool:
    return bool(await tx.fetch("set_template", tenant, name, current, shared_with))


async def delete_template(tx: Tx, tenant: str, name: str) -> bool:
    deleted = await tx.fetch("delete_template", tenant, name)
    await tx.fetch("delete_template_versions", tenant, name)
    return bool(deleted)


def _record(row: Sequence[Any]) -> TemplateRecord:
    *plain, shared_with = row
    fields: dict[str, Any] = dict(zip(_COLUMNS, plain, strict=True))
    return TemplateRecord(**fields, shared_with=tuple(shared_with))
