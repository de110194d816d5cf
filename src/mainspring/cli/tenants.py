"""`mainspring tenants`: who shares a store, how much of it each may use, and removing one with all that is his."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import structs

from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl
from mainspring.cli.output import Output, table, text
from mainspring.core.job import DEFAULT_TENANT
from mainspring.core.words import clean, count, stamp
from mainspring.errors import InvalidError, NotFoundError
from mainspring.verbs import documents as d

if TYPE_CHECKING:
    from rich.console import RenderableType

tenants_app = typer.Typer(help="Make tenants, bound what they use, erase them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The tenant's name.", show_default=False)]

_Amount = str | None


def _amount(help: str) -> Any:
    return typer.Option(metavar="NUMBER", help=help + ", or none for no limit.", show_default=False)


_Queued = Annotated[_Amount, _amount("Jobs that may wait")]
_Running = Annotated[_Amount, _amount("Jobs that may run at once")]
_Schedules = Annotated[_Amount, _amount("Schedules")]
_Submits = Annotated[_Amount, _amount("Jobs submitted per second")]


@tenants_app.command("list")
def list_tenants(store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """List tenants and their quotas, the erased ones too."""

    async def work() -> None:
        async with opened(store, server) as app:
            found = await app.verbs().tenants.list()
        Output(as_json).show({"tenants": found}, lambda: _view(found))

    perform(work())


def _view(found: Sequence[d.TenantDocument]) -> "Iterable[RenderableType]":
    if not found:
        yield f"no tenants but {DEFAULT_TENANT!r}, which has no quota"
        return
    rows = [(t.name, _standing(t), *(_shown(value) for value in structs.astuple(t.quota))) for t in found]
    names = [name.replace("_per_s", "/s") for name in d.Quota.__struct_fields__]
    yield table(("name", "", *names), rows, right=names)


def _standing(tenant: d.TenantDocument) -> str:
    if tenant.erased_at is not None:
        return f"erased {stamp(tenant.erased_at)}"
    return "sealed" if tenant.sealed else ""


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


@tenants_app.command()
def create(
    name: Name,
    queued: _Queued = None,
    running: _Running = None,
    schedules: _Schedules = None,
    submits_per_s: _Submits = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a tenant; without a quota it is not limited."""
    quota = _changed(d.Quota(), queued, running, schedules, submits_per_s)

    async def work() -> None:
        async with opened(store, server) as app:
            made = await app.verbs().tenants.create(d.NewTenant(name=name, quota=quota))
        Output(as_json).show(made, lambda: [text(f"{name} is made")])

    perform(work())


@tenants_app.command()
def quota(
    name: Name,
    queued: _Queued = None,
    running: _Running = None,
    schedules: _Schedules = None,
    submits_per_s: _Submits = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Change the quota of a tenant, and show it.

    What is not named stays as it is.
    """
    said = (queued, running, schedules, submits_per_s)

    async def work() -> None:
        async with opened(store, server) as app:
            tenants = app.verbs().tenants
            found = next((tenant for tenant in await tenants.list() if tenant.name == name), None)
            if found is None and name != DEFAULT_TENANT:
                raise NotFoundError(f"there is no tenant {name!r}; make it with `mainspring tenants create`")
            before = d.Quota() if found is None else found.quota
            if found is None or any(value is not None for value in said):
                found = await tenants.set_quota(name, _changed(before, *said))
        made = found
        Output(as_json).show(made, lambda: _view([made]))

    perform(work())


@tenants_app.command("set")
def set_tenant(
    name: Name,
    sealed: Annotated[
        bool,
        typer.Option(
            "--sealed/--unsealed",
            help="Store arguments and results of its jobs encrypted from now on, or not.",
            show_default=False,
        ),
    ],
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Seal a tenant: from now on what its jobs take and return is stored encrypted.

    What is stored already stays as it is, and readable. Every process on the store needs the keys (`mainspring secrets new-key`).
    """

    async def work() -> None:
        async with opened(store, server) as app:
            made = await app.verbs().tenants.seal(name, sealed)
        Output(as_json).show(made, lambda: [text(f"{name} is {'sealed' if sealed else 'not sealed any more'}")])

    perform(work())


def _changed(before: d.Quota, queued: _Amount, running: _Amount, schedules: _Amount, submits_per_s: _Amount) -> d.Quota:
    return d.Quota(
        queued=before.queued if queued is None else _whole("queued", queued),
        running=before.running if running is None else _whole("running", running),
        schedules=before.schedules if schedules is None else _whole("schedules", schedules),
        submits_per_s=before.submits_per_s if submits_per_s is None else _number("submits_per_s", submits_per_s),
    )


def _whole(field: str, text: str) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidError(field, f"expected a whole number, or none for no limit, got {text[:40]!r}")
    return int(text)


def _number(field: str, text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidError(field, f"expected a number, or none for no limit, got {text[:40]!r}") from None


@tenants_app.command()
def erase(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.", show_default=False)] = False,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Remove everything of a tenant: keys, jobs, schedules, queues, templates, the content of its audit.

    It cannot be undone, and the name is not given again.
    """
    if not yes:
        _ask(f"Erase the tenant {name!r} with everything that belongs to it? [y/N] ")

    async def work() -> None:
        async with opened(store, server) as app:
            jobs = await app.verbs().tenants.erase(name)
        Output(as_json).show(
            {"name": name, "jobs": jobs}, lambda: [text(f"{name} is erased, with {count(jobs, 'job')}")]
        )

    perform(work())


def _ask(question: str) -> None:
    """Go on after a yes only. The question is on stderr, because the answer of a command is on stdout."""
    print(clean(question, one_line=True), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort
