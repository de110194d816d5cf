"""Templates over a store: versions, sharing, and jobs made from them (see `faces.Templates`, `core.template`).

A version never changes; a change is a new version, and going back points at an old one. What is stored has been checked: markers,
placeholders, and the options that are written out. A job made from a template goes through the checks of every other submit.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import json, to_builtins

from mainspring.access.audit import Actor
from mainspring.core.draft import Draft
from mainspring.core.job import DEFAULT_TENANT, MAX_ARGUMENTS_BYTES
from mainspring.core.jsontext import check_object
from mainspring.core.options import GivenOptions, check_name, check_tenant
from mainspring.core.options_json import read_options
from mainspring.core.partition import format_id
from mainspring.core.template import check_template, fill, has_marker
from mainspring.core.timer import from_micros
from mainspring.errors import ConflictError, InvalidError, NotFoundError
from mainspring.store.service import ALL_TENANTS, TemplateRecord
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine

MAX_SHARED = 1000
_TRIES = 10  # of a put that meets others: each of them is one version further
_ADDRESSES = frozenset({"export", "import", "validate"})  # /v1/templates/…

_decode = json.Decoder(d.TemplateDefinition).decode


class LocalTemplates:
    """The templates of one tenant, and those shared with it."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._engine = engine
        self._store = engine.store
        self._tenant = tenant or DEFAULT_TENANT
        self._actor = actor

    # looking

    async def list(self) -> Sequence[d.TemplateDocument]:
        return [_document(record) for record in await self._store.list_templates(self._tenant)]

    async def versions(self, name: str) -> Sequence[d.TemplateDocument]:
        return [_document(record) for record in await self._own(name)]

    async def read(self, name: str, version: int | None = None, owner: str | None = None) -> d.TemplateDocument:
        return _document(await self._find(name, version, owner))

    async def export(self) -> d.TemplateBundle:
        found = [record for record in await self._store.list_templates(self._tenant) if record.tenant == self._tenant]
        return d.TemplateBundle(templates={record.name: _decode(record.definition) for record in found})

    # changing

    async def put(self, name: str, definition: d.TemplateDefinition) -> d.TemplateDocument:
        (made,) = await self._put({name: definition}, "")
        return made

    async def load(self, bundle: d.TemplateBundle) -> Sequence[d.TemplateDocument]:
        return await self._put(bundle.templates, "templates")

    async def rollback(self, name: str, version: int) -> d.TemplateDocument:
        found = await self._own(name)
        _pick(found, name, version)
        return await self._set("rollback_template", found[0], current=version)

    async def share(self, name: str, tenants: Sequence[str]) -> d.TemplateDocument:
        last = (await self._own(name))[0]
        return await self._set("share_template", last, shared_with=_tenants(tenants))

    async def delete(self, name: str) -> None:
        last = (await self._own(name))[0]
        if not await self._store.delete_template(self._tenant, name):
            raise _no_template(name)
        await self._note("delete_template", name, _standing(last), None)

    # using

    async def validate(self, definition: d.TemplateDefinition, values: dict[str, Any] | None = None) -> None:
        _check("", definition)
        if values is not None:
            await self._draft(definition, d.TemplateSubmit(values=values))

    async def submit(self, name: str, request: d.TemplateSubmit) -> d.Submitted:
        record = await self._find(name, request.version, request.owner)
        drafts = [await self._draft(_decode(record.definition), request)]
        (made,) = await self._engine.submitter.submit(drafts)
        return d.Submitted(id=format_id(made.id), existed=made.existed)

    async def _draft(self, definition: d.TemplateDefinition, request: d.TemplateSubmit) -> Draft:
        arguments, options = fill(definition.arguments, definition.options, definition.placeholders, request.values)
        wanted = d.SubmitRequest(kind=definition.kind, arguments=arguments, options=options | request.options)
        return await self._engine.drafts.make(wanted, self._tenant)

    async def _own(self, name: str) -> "Sequence[TemplateRecord]":
        """All versions of one of this tenant's own, the newest first."""
        found = await self._store.list_template_versions(self._tenant, check_name("name", name))
        if not found:
            raise _no_template(name)
        return found

    async def _find(self, name: str, version: int | None, owner: str | None) -> TemplateRecord:
        if owner is None or owner == self._tenant:
            return _pick(await self._own(name), name, version)
        found = await self._store.list_template_versions(check_tenant("owner", owner), check_name("name", name))
        if not found or not {self._tenant, ALL_TENANTS} & set(found[0].shared_with):
            raise NotFoundError(f"there is no template {name!r} that {owner!r} shares with you")
        return _pick(found, name, version)

    async def _put(self, wanted: dict[str, d.TemplateDefinition], path: str) -> Sequence[d.TemplateDocument]:
        """All of them, or none: they are checked before the first is written, and written together."""
        encoded = {}
        for name, definition in wanted.items():
            _check_own(path or "name", name)
            encoded[name] = _check(f"{path}.{name}." if path else "", definition)
        for _ in range(_TRIES):
            if await self._try_put(encoded):
                return [await self.read(name) for name in encoded]
        raise ConflictError("name: others change these templates all the time; try again")

    async def _try_put(self, encoded: dict[str, bytes]) -> bool:
        """False where somebody else made a version meanwhile."""
        standing = {name: await self._store.list_template_versions(self._tenant, name) for name in encoded}
        changed = [
            self._next(name, data, standing[name]) for name, data in encoded.items() if _differs(standing[name], data)
        ]
        if changed and not all(await self._store.put_templates(changed)):
            return False
        for record in changed:
            before = [_standing(last) for last in standing[record.name][:1]]
            await self._note("put_template", record.name, before[0] if before else None, _standing(record))
        return True

    def _next(self, name: str, data: bytes, standing: "Sequence[TemplateRecord]") -> TemplateRecord:
        version = standing[0].version + 1 if standing else 1
        return TemplateRecord(
            tenant=self._tenant,
            name=name,
            version=version,
            definition=data,
            created_at=self._store.clock.now(),
            created_by=self._actor.name,
            current=version,
            shared_with=standing[0].shared_with if standing else (),
        )

    async def _set(
        self,
        action: str,
        before: TemplateRecord,
        *,
        current: int | None = None,
        shared_with: tuple[str, ...] | None = None,
    ) -> d.TemplateDocument:
        """Change one thing; what others change at the same time stays changed."""
        if not await self._store.set_template(self._tenant, before.name, current=current, shared_with=shared_with):
            raise _no_template(before.name)
        after = (await self._own(before.name))[0]
        await self._note(action, before.name, _standing(before), _standing(after))
        return await self.read(before.name)

    async def _note(self, action: str, name: str, before: object, after: object) -> None:
        await self._engine.audit.record(self._tenant, self._actor, action, name, before, after)


def _check_own(field: str, name: str) -> None:
    """A name that the API can address."""
    if check_name(field, name) in _ADDRESSES:
        raise InvalidError(field, f"{name!r} is a word of the API; use another name")


def _check(path: str, definition: d.TemplateDefinition) -> bytes:
    """The definition as it is stored, if it makes sense; `path` comes before the names of its fields."""
    try:
        check_name("kind", definition.kind)
        check_object("arguments", definition.arguments)
        check_object("options", definition.options)
        check_object("placeholders", to_builtins(definition.placeholders))
        check_object("description", {"": definition.description})
        check_template(definition.arguments, definition.options, definition.placeholders)
        _check_options(definition.options)
    except InvalidError as error:
        raise InvalidError(f"{path}{error.field}", error.problem) from None
    data = json.encode(definition)
    if len(data) > MAX_ARGUMENTS_BYTES:
        raise InvalidError(path.rstrip(".") or "definition", f"is longer than {MAX_ARGUMENTS_BYTES:,} bytes of JSON")
    return data


def _check_options(options: dict[str, Any]) -> None:
    """Their names, and the values without a hole; the others are checked when they are filled in."""
    for name in options:
        if name not in GivenOptions.__annotations__:
            raise InvalidError(
                f"options.{name[:60]}", f"is no option; there are {', '.join(GivenOptions.__annotations__)}"
            )
    try:
        read_options({name: value for name, value in options.items() if not has_marker(value)})
    except InvalidError as error:
        raise InvalidError(f"options.{error.field}", error.problem) from None


def _tenants(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) > MAX_SHARED:
        raise InvalidError("tenants", f"has {len(names)} entries; at most {MAX_SHARED} are allowed")
    for place, name in enumerate(names):
        if name != ALL_TENANTS:
            check_tenant(f"tenants[{place}]", name)
    return tuple(dict.fromkeys(names))


def _pick(found: Sequence[TemplateRecord], name: str, version: int | None) -> TemplateRecord:
    wanted = found[0].current if version is None else version
    for record in found:
        if record.version == wanted:
            return record
    raise NotFoundError(f"template {name!r} has no version {wanted}; the newest is {found[0].version}")


def _differs(standing: Sequence[TemplateRecord], data: bytes) -> bool:
    return not standing or _pick(standing, "", None).definition != data


def _standing(record: TemplateRecord) -> dict[str, Any]:
    """What the audit says of a template: versions stay, so their numbers are enough."""
    return {"version": record.version, "current": record.current, "shared_with": record.shared_with}


def _no_template(name: str) -> NotFoundError:
    return NotFoundError(f"there is no template {name!r}; `mainspring templates list` shows them")


def _document(record: TemplateRecord) -> d.TemplateDocument:
    return d.TemplateDocument(
        name=record.name,
        tenant=record.tenant,
        version=record.version,
        current=record.current,
        definition=_decode(record.definition),
        shared_with=list(record.shared_with),
        created_at=from_micros(record.created_at),
        created_by=record.created_by,
    )
