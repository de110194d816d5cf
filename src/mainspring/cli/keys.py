"""`mainspring keys`: who may come in, and as what."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.opening import opened, perform, verbs_of
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl, Tenant
from mainspring.cli.output import Output, table, text
from mainspring.core.words import stamp
from mainspring.verbs import documents as d

if TYPE_CHECKING:
    from rich.console import RenderableType

keys_app = typer.Typer(help="Make, list and revoke keys of a server.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Who or what it is for.", show_default=False)]
KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.", show_default=False)]

_ONCE = "this is shown once: keep it where nobody else reads it"


@keys_app.command("list")
def list_keys(tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """List keys, without their secrets.

    With `--tenant '*'`, those of all tenants.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            found = await verbs_of(app, tenant).keys.list()
        Output(as_json).show({"keys": found}, lambda: _view(found))

    perform(work())


def _view(found: Sequence[d.KeyDocument]) -> "Iterable[RenderableType]":
    if not found:
        yield "no keys: make one with `mainspring keys create NAME --role ROLE`"
        return
    rows = [(key.id, key.name, key.role, key.tenant, _standing(key), key.created_by) for key in found]
    yield table(("id", "name", "role", "tenant", "", "made by"), rows)


def _standing(key: d.KeyDocument) -> str:
    if key.revoked_at is not None:
        return f"revoked {stamp(key.revoked_at)}"
    return "" if key.expires_at is None else f"until {stamp(key.expires_at)}"


@keys_app.command()
def create(
    name: Name,
    role: Annotated[
        str,
        typer.Option(metavar="ROLE", help="viewer, submitter, operator, worker or admin.", show_default=False),
    ],
    expires_in: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long it is good; else for ever.", show_default=False)
    ] = None,
    requests_per_s: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Requests per second it may make.", show_default=False)
    ] = None,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it, this once.

    With `--tenant '*'`, one that may act for every tenant.
    """
    new = d.NewKey(name=name, role=role, tenant=tenant, expires_in=expires_in, requests_per_s=requests_per_s)

    async def work() -> None:
        async with opened(store, server) as app:
            made = await verbs_of(app, tenant).keys.create(new)
        _show(made, as_json)

    perform(work())


@keys_app.command("join-token")
def join_token(
    name: Name,
    expires_in: Annotated[str, typer.Option(metavar="DURATION", help="How long it is good.")] = "1h",
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a token that enrols one worker, once, and print it."""

    async def work() -> None:
        async with opened(store, server) as app:
            made = await verbs_of(app, tenant).keys.join_token(name, expires_in)
        _show(made, as_json)

    perform(work())


def _show(made: d.KeyDocument, as_json: bool) -> None:
    """The key alone on standard output, so that a script can take it from there."""
    Output(as_json).show(made, lambda: [made.key or ""])
    if not as_json:
        print(_ONCE, file=sys.stderr)


@keys_app.command()
def revoke(
    key: KeyId, tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """Revoke a key or a join token; servers refuse it at once, or within 5 seconds."""

    async def work() -> None:
        async with opened(store, server) as app:
            await verbs_of(app, tenant).keys.revoke(key)
        Output(as_json).show({"id": key, "revoked": True}, lambda: [text(f"{key} is revoked")])

    perform(work())
