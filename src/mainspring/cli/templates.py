"""`mainspring templates`: jobs with holes, their versions, and submitting from them."""

import json as standard_json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import UNSET, json, to_builtins

from mainspring.cli.opening import opened, perform, verbs_of
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl, Tenant
from mainspring.cli.output import Output, fields, pretty_json, table, text
from mainspring.cli.reading import fetched, read_document
from mainspring.core.jsontext import read_object
from mainspring.core.template import Placeholder
from mainspring.core.words import count, stamp
from mainspring.verbs import documents as d

if TYPE_CHECKING:
    from rich.console import RenderableType

templates_app = typer.Typer(help="Keep jobs with holes, and submit from them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The template's name.", show_default=False)]
Definition = Annotated[
    str,
    typer.Argument(
        metavar="DEFINITION",
        help="A JSON object with kind, arguments, options and placeholders; @FILE, or - for standard input.",
        show_default=False,
    ),
]
Version = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="The version; else the current one.", show_default=False)
]
Owner = Annotated[
    str | None, typer.Option(metavar="NAME", help="The tenant that shares it; else your own.", show_default=False)
]


@templates_app.command("list")
def list_templates(
    tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """List templates: one's own, and those that others share."""

    async def work() -> None:
        async with opened(store, server) as app:
            found = await verbs_of(app, tenant).templates.list()
        Output(as_json).show({"templates": found}, lambda: _table(found))

    perform(work())


def _table(found: Sequence[d.TemplateDocument]) -> "Iterable[RenderableType]":
    if not found:
        yield "no templates"
        return
    rows = [
        (
            t.name,
            t.tenant,
            t.definition.kind,
            f"{t.version}",
            ", ".join(t.definition.placeholders),
            ", ".join(t.shared_with),
        )
        for t in found
    ]
    yield table(("name", "tenant", "kind", "version", "placeholders", "shared with"), rows, right=("version",))


@templates_app.command()
def show(
    name: Name,
    version: Version = None,
    owner: Owner = None,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show a template and what may fill it in."""

    async def work() -> None:
        async with opened(store, server) as app:
            found = await verbs_of(app, tenant).templates.read(name, version, owner)
        Output(as_json).show(found, lambda: _view(found))

    perform(work())


def _view(found: d.TemplateDocument) -> "Iterator[RenderableType]":
    definition = found.definition
    yield fields(_pairs(found))
    yield text("\narguments", style="bold")
    yield text(pretty_json(json.encode(definition.arguments)))
    if definition.options:
        yield text("\noptions", style="bold")
        yield text(pretty_json(json.encode(definition.options)))
    if definition.placeholders:
        yield text("\nplaceholders", style="bold")
        rows = [(name, p.type, _default(p), _bounds(p), p.description) for name, p in definition.placeholders.items()]
        yield table(("name", "type", "default", "bounds", ""), rows)


def _pairs(found: d.TemplateDocument) -> Iterator[tuple[str, object]]:
    yield "name", found.name
    yield "tenant", found.tenant
    yield "kind", found.definition.kind
    yield (
        "version",
        f"{found.version}" if found.version == found.current else f"{found.version}; {found.current} is current",
    )
    yield "made", f"{stamp(found.created_at)} by {found.created_by}"
    yield "shared with", ", ".join(found.shared_with) or None
    yield "description", found.definition.description or None


def _default(placeholder: Placeholder) -> str:
    return "must be given" if placeholder.default is UNSET else json.encode(placeholder.default).decode()


def _bounds(placeholder: Placeholder) -> str:
    if placeholder.choices is not None:
        return " | ".join(json.encode(choice).decode() for choice in placeholder.choices)
    bounds = (("at least", placeholder.least), ("at most", placeholder.most))
    return ", ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)


@templates_app.command()
def put(
    name: Name,
    definition: Definition,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Store a template, or a new version of one, which is current from now on."""
    wanted = read_document("definition", definition, d.TemplateDefinition)

    async def work() -> None:
        async with opened(store, server) as app:
            made = await verbs_of(app, tenant).templates.put(name, wanted)
        _show_version(made, as_json)

    perform(work())


def _show_version(made: d.TemplateDocument, as_json: bool) -> None:
    Output(as_json).show(made, lambda: [text(f"{made.name}: version {made.current} is current")])


@templates_app.command()
def rollback(
    name: Name,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="The version to use.", show_default=False)],
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Use an earlier version of a template, or a later one, from now on."""

    async def work() -> None:
        async with opened(store, server) as app:
            made = await verbs_of(app, tenant).templates.rollback(name, version)
        _show_version(made, as_json)

    perform(work())


@templates_app.command()
def share(
    name: Name,
    tenants: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TENANT]...", help="With whom; '*' is everybody.", show_default=False),
    ] = None,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Let exactly these tenants read a template and submit from it.

    Without one, nobody else may any more.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            made = await verbs_of(app, tenant).templates.share(name, tenants or [])
        shared = ", ".join(made.shared_with) or "nobody"
        Output(as_json).show(made, lambda: [text(f"{name} is shared with {shared}")])

    perform(work())


@templates_app.command()
def delete(
    name: Name, tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """Delete a template with all its versions; jobs made from it stay."""

    async def work() -> None:
        async with opened(store, server) as app:
            await verbs_of(app, tenant).templates.delete(name)
        Output(as_json).show({"name": name, "deleted": True}, lambda: [text(f"{name} is deleted")])

    perform(work())


_Values = Annotated[
    str, typer.Option(metavar="JSON", help="A JSON object, placeholder to value; @FILE, or - for standard input.")
]


@templates_app.command()
def submit(
    name: Name,
    values: _Values = "{}",
    options: Annotated[
        str, typer.Option(metavar="JSON", help="A JSON object with options that come before the template's; @FILE.")
    ] = "{}",
    version: Version = None,
    owner: Owner = None,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Fill in a template and submit it; the job is durable when its id is printed."""
    request = d.TemplateSubmit(
        values=_object("values", values), options=_object("options", options), version=version, owner=owner
    )

    async def work() -> None:
        async with opened(store, server) as app:
            made = await verbs_of(app, tenant).templates.submit(name, request)
        Output(as_json).show(made, lambda: [made.id])

    perform(work())


def _object(field: str, given: str) -> dict[str, Any]:
    return read_object(field, fetched(field, given))


@templates_app.command()
def validate(
    definition: Definition,
    values: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Fill it in with these too; @FILE, or - for standard input.", show_default=False
        ),
    ] = None,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Check a template, and values for it, without storing anything."""
    wanted = read_document("definition", definition, d.TemplateDefinition)
    given = None if values is None else _object("values", values)

    async def work() -> None:
        async with opened(store, server) as app:
            await verbs_of(app, tenant).templates.validate(wanted, given)
        Output(as_json).show({"valid": True}, lambda: ["valid"])

    perform(work())


@templates_app.command()
def export(tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """Print the current version of one's own templates as JSON, for `templates import`."""

    async def work() -> None:
        async with opened(store, server) as app:
            bundle = await verbs_of(app, tenant).templates.export()
        if as_json:
            Output(as_json).line(bundle)
        else:  # ASCII only: exact in a file, and harmless on a terminal
            print(standard_json.dumps(to_builtins(bundle), indent=2))

    perform(work())


@templates_app.command("import")
def import_templates(
    bundle: Annotated[
        str,
        typer.Argument(
            metavar="BUNDLE",
            help="What `templates export` printed: @FILE, or - for standard input.",
            show_default=False,
        ),
    ],
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Store all templates of a bundle, or none if one of them is refused."""
    wanted = read_document("bundle", bundle, d.TemplateBundle)

    async def work() -> None:
        async with opened(store, server) as app:
            made = await verbs_of(app, tenant).templates.load(wanted)
        Output(as_json).show({"templates": made}, lambda: [text(f"{count(len(made), 'template')} imported")])

    perform(work())
