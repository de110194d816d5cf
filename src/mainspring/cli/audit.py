"""`mainspring audit`: what people did, and whether the record of it is whole."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.failures import SilentError
from mainspring.cli.opening import opened, perform, verbs_of
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl, Tenant
from mainspring.cli.output import Output, table, text
from mainspring.core.words import count, shortened, stamp
from mainspring.verbs import documents as d

if TYPE_CHECKING:
    from rich.console import RenderableType

audit_app = typer.Typer(help="Read and verify the record of what people did.", no_args_is_help=True)


@audit_app.command("list")
def list_audit(
    after: Annotated[int, typer.Option(metavar="NUMBER", help="Only records behind this number.")] = 0,
    limit: Annotated[int, typer.Option(metavar="NUMBER", help="How many, up to 1000.")] = 100,
    tenant: Tenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """List the audit records of a tenant, oldest first.

    With `--tenant '*'`, those of what concerns all tenants.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            found = await verbs_of(app, tenant).audit.list(after=after, limit=limit)
        Output(as_json).show({"records": found}, lambda: _view(found))

    perform(work())


def _view(found: Sequence[d.AuditDocument]) -> "Iterable[RenderableType]":
    if not found:
        yield "no records"
        return
    rows = [
        (f"{r.number}", stamp(r.at), r.actor or "erased", r.action or "", r.target or "", r.origin or "", _after(r))
        for r in found
    ]
    yield table(("number", "at", "who", "what", "to what", "from", "after"), rows, right=("number",))


def _after(record: d.AuditDocument) -> str:
    said = bytes(record.after).decode()
    return "" if said == "null" else shortened(said)


@audit_app.command()
def verify(tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """Check that no audit record of a tenant was changed or removed; exit code 1 if one was."""

    async def work() -> d.Verification:
        async with opened(store, server) as app:
            return await verbs_of(app, tenant).audit.verify()

    found = perform(work())
    Output(as_json).show(found, lambda: [text(_verdict(found))])
    if found.broken_at is not None:
        raise SilentError


def _verdict(found: d.Verification) -> str:
    whole = f"{count(found.records, 'record')} of {found.tenant!r}"
    if found.broken_at is None:
        return f"{whole}: all of them fit"
    return f"{whole} fit, and number {found.broken_at} does not: it was changed, or one is missing"
