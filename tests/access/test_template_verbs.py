"""Templates over a store: versions, sharing, submits."""

import asyncio
from typing import Any

import pytest
from msgspec import json

from access.scene import ROOT, make_tenant
from mainspring.core.partition import parse_id
from mainspring.core.template import Placeholder
from mainspring.errors import ConflictError, InvalidError, NotFoundError
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine
from mainspring.verbs.local import LocalVerbs

TO = {"to": Placeholder()}


def template(**changes: Any) -> d.TemplateDefinition:
    return d.TemplateDefinition(**{"kind": "send", "arguments": {"to": {"$": "to"}}, "placeholders": TO} | changes)


async def arguments_of(engine: Engine, job: str) -> Any:
    (record,) = await engine.store.read_jobs([parse_id(job)])
    assert record is not None
    return json.decode(record.arguments)


async def test_versions_and_the_way_back(verbs: LocalVerbs) -> None:
    first = await verbs.templates.put("welcome", template())
    assert (first.version, first.current, first.tenant, first.created_by) == (1, 1, "default", "root")
    assert (await verbs.templates.put("welcome", template())).version == 1
    second = await verbs.templates.put("welcome", template(description="second"))
    assert (second.version, second.current) == (2, 2)
    assert [one.version for one in await verbs.templates.versions("welcome")] == [2, 1]
    back = await verbs.templates.rollback("welcome", 1)
    assert (back.version, back.current, back.definition) == (1, 1, template())
    assert (await verbs.templates.read("welcome", 2)).definition == template(description="second")
    assert (await verbs.templates.put("welcome", template())).version == 1  # it is the current one
    third = await verbs.templates.put("welcome", template(description="third"))
    assert (third.version, third.current) == (3, 3)
    assert [one.version for one in await verbs.templates.list()] == [3]
    actions = [note.action for note in await verbs.audit.list()]
    assert actions == ["put_template", "put_template", "rollback_template", "put_template"]


async def test_what_is_not_there(verbs: LocalVerbs) -> None:
    await verbs.templates.put("welcome", template())
    for work in (
        verbs.templates.read("other"),
        verbs.templates.read("welcome", 2),
        verbs.templates.read("welcome", owner="acme"),
        verbs.templates.rollback("welcome", 2),
        verbs.templates.rollback("other", 1),
        verbs.templates.share("other", ["*"]),
        verbs.templates.delete("other"),
        verbs.templates.submit("other", d.TemplateSubmit()),
        verbs.templates.submit("welcome", d.TemplateSubmit(version=7)),
    ):
        with pytest.raises(NotFoundError):
            await work


async def test_a_deleted_template_is_gone(verbs: LocalVerbs) -> None:
    await verbs.templates.put("welcome", template())
    await verbs.templates.delete("welcome")
    assert await verbs.templates.list() == []
    assert (await verbs.templates.put("welcome", template())).version == 1


async def test_a_submit_fills_in_and_goes_the_way_of_all_submits(engine: Engine, verbs: LocalVerbs) -> None:
    definition = template(
        arguments={"to": {"$": "to"}, "text": "Dear {to}, ${to}", "count": {"$": "count"}},
        options={"key": {"$": "to"}, "priority": 7, "tags": ["a", {"$": "to"}]},
        placeholders=TO | {"count": Placeholder(type="integer", default=1)},
    )
    await verbs.templates.put("welcome", definition)
    made = await verbs.templates.submit(
        "welcome", d.TemplateSubmit(values={"to": "ann {count}"}, options={"priority": 2})
    )
    (record,) = await engine.store.read_jobs([parse_id(made.id)])
    assert record is not None
    assert json.decode(record.arguments) == {"to": "ann {count}", "text": "Dear {to}, ${to}", "count": 1}
    assert (record.queue, record.priority, record.options.key) == ("mail", 2, "ann {count}")
    assert record.options.tags == ("a", "ann {count}")
    again = await verbs.templates.submit("welcome", d.TemplateSubmit(values={"to": "ann {count}"}))
    assert (again.id, again.existed) == (made.id, True)
    with pytest.raises(ConflictError, match="key"):
        await verbs.templates.submit("welcome", d.TemplateSubmit(values={"to": "ann {count}", "count": 2}))


async def test_a_submit_names_its_version(engine: Engine, verbs: LocalVerbs) -> None:
    await verbs.templates.put("welcome", template())
    await verbs.templates.put("welcome", template(arguments={"to": "all"}, placeholders={}))
    assert await arguments_of(engine, (await verbs.templates.submit("welcome", d.TemplateSubmit())).id) == {"to": "all"}
    old = await verbs.templates.submit("welcome", d.TemplateSubmit(values={"to": "x"}, version=1))
    assert await arguments_of(engine, old.id) == {"to": "x"}


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (d.TemplateSubmit(), "values.to"),
        (d.TemplateSubmit(values={"to": 5}), "values.to"),
        (d.TemplateSubmit(values={"to": "a", "of": 1}), "values.of"),
        (d.TemplateSubmit(values={"to": "a"}, options={"priority": 11}), "priority"),
        (d.TemplateSubmit(values={"to": "a"}, options={"tenant": "acme"}), "tenant"),
        (d.TemplateSubmit(values={"to": "a\0b"}), "arguments"),
    ],
)
async def test_submits_that_are_refused(verbs: LocalVerbs, request_: d.TemplateSubmit, field: str) -> None:
    await verbs.templates.put("welcome", template())
    with pytest.raises(InvalidError) as caught:
        await verbs.templates.submit("welcome", request_)
    assert caught.value.field == field
    assert (await verbs.jobs.list(d.JobQuery())).jobs == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"arguments": {"to": {"$": "who"}}}, "arguments.to"),
        ({"arguments": {}}, "placeholders.to"),
        ({"options": {"priority": 99}}, "options.priority"),
        ({"options": {"prio": {"$": "to"}}}, "options.prio"),
        ({"options": {"at": "tomorrow"}}, "options.at"),
        ({"kind": ""}, "kind"),
        ({"placeholders": {"to": Placeholder(type="integer", default=True)}}, "placeholders.to.default"),
        ({"placeholders": {"to": Placeholder(default="\0")}}, "placeholders"),
        ({"description": "\ud800"}, "description"),
        ({"arguments": {"to": {"$": "to"}, "n": float("nan")}}, "arguments"),
        ({"arguments": {"to": {"$": "to"}, "text": "x" * 1_048_576}}, "definition"),
    ],
)
async def test_templates_that_are_refused(verbs: LocalVerbs, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        await verbs.templates.put("welcome", template(**changes))
    assert caught.value.field == field
    with pytest.raises(InvalidError) as caught:
        await verbs.templates.validate(template(**changes))
    assert caught.value.field == field
    bundle = d.TemplateBundle(templates={"good": template(), "bad": template(**changes)})
    with pytest.raises(InvalidError) as caught:
        await verbs.templates.load(bundle)
    assert caught.value.field == ("templates.bad" if field == "definition" else f"templates.bad.{field}")
    assert await verbs.templates.list() == []


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201])
async def test_names_that_are_none(verbs: LocalVerbs, name: str) -> None:
    with pytest.raises(InvalidError, match="name"):
        await verbs.templates.put(name, template())
    with pytest.raises(InvalidError, match="templates"):
        await verbs.templates.load(d.TemplateBundle(templates={name: template()}))


async def test_validating_with_values_stores_nothing(verbs: LocalVerbs) -> None:
    await verbs.templates.validate(template())
    await verbs.templates.validate(template(), {"to": "a"})
    with pytest.raises(InvalidError, match=r"values\.to"):
        await verbs.templates.validate(template(), {"to": 1})
    with pytest.raises(InvalidError, match="knows no kind 'sned'"):
        await verbs.templates.validate(template(kind="sned"), {"to": "a"})
    assert await verbs.templates.list() == []
    assert (await verbs.jobs.list(d.JobQuery())).jobs == []


async def test_sharing(engine: Engine, verbs: LocalVerbs) -> None:
    await make_tenant(engine, "acme")
    theirs = engine.verbs("acme", ROOT)
    await verbs.templates.put("welcome", template())
    with pytest.raises(NotFoundError):
        await theirs.templates.submit("welcome", d.TemplateSubmit(values={"to": "a"}, owner="default"))
    assert (await verbs.templates.share("welcome", ["acme", "acme"])).shared_with == ["acme"]
    assert [(one.tenant, one.name) for one in await theirs.templates.list()] == [("default", "welcome")]
    made = await theirs.templates.submit("welcome", d.TemplateSubmit(values={"to": "a"}, owner="default"))
    (record,) = await engine.store.read_jobs([parse_id(made.id)])
    assert record is not None
    assert record.tenant == "acme"
    assert (await theirs.templates.export()).templates == {}
    with pytest.raises(NotFoundError):  # shared is not owned
        await theirs.templates.rollback("welcome", 1)
    await verbs.templates.put("welcome", template(description="2"))  # a new version is shared like the one before
    assert (await theirs.templates.read("welcome", owner="default")).version == 2
    await verbs.templates.share("welcome", [])
    assert await theirs.templates.list() == []
    await verbs.templates.share("welcome", ["*"])
    assert (await theirs.templates.read("welcome", owner="default")).shared_with == ["*"]


@pytest.mark.parametrize("tenants", [["a/b"], [""], ["x"] * 1001])
async def test_sharing_with_what_is_no_tenant(verbs: LocalVerbs, tenants: list[str]) -> None:
    await verbs.templates.put("welcome", template())
    with pytest.raises(InvalidError, match="tenants"):
        await verbs.templates.share("welcome", tenants)


async def test_a_bundle_goes_from_one_place_to_another(engine: Engine, verbs: LocalVerbs) -> None:
    await make_tenant(engine, "acme")
    await verbs.templates.put("a", template())
    await verbs.templates.put("b", template(description="b"))
    bundle = await verbs.templates.export()
    theirs = engine.verbs("acme", ROOT).templates
    assert [(one.name, one.version) for one in await theirs.load(bundle)] == [("a", 1), ("b", 1)]
    assert await theirs.export() == json.decode(json.encode(bundle), type=d.TemplateBundle) == bundle
    changed = d.TemplateBundle(templates=bundle.templates | {"b": template(description="new")})
    assert [(one.name, one.version) for one in await theirs.load(changed)] == [("a", 1), ("b", 2)]


async def test_puts_that_meet_make_one_version_each(verbs: LocalVerbs) -> None:
    made = await asyncio.gather(*(verbs.templates.put("t", template(description=str(n))) for n in range(5)))
    assert len(made) == 5
    assert [one.version for one in await verbs.templates.versions("t")] == [5, 4, 3, 2, 1]
