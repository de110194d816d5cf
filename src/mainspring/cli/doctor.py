"""`mainspring doctor`: is everything as it should be, and if not, what to do?"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.app import App
from mainspring.cli.checks import FAIL, WARN, Check, check_file, check_machine, check_types
from mainspring.cli.failures import SilentError
from mainspring.cli.opening import perform
from mainspring.cli.options import AsJson, StoreUrl
from mainspring.cli.output import Output, table, text
from mainspring.cli.postgreschecks import check_database
from mainspring.cli.storechecks import check_objects, check_store
from mainspring.core.words import count
from mainspring.errors import InvalidError

if TYPE_CHECKING:
    from rich.console import RenderableType

Full = Annotated[
    bool, typer.Option("--full", help="SQLite: check the integrity of a large store too; this may take minutes.")
]


def doctor(full: Full = False, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Check this machine and the store.

    Every line is ok, warn or fail, with what to do; exit code 1 if something failed.
    """
    app = App(store)
    if full and app.store_settings.is_postgres:
        raise InvalidError("full", "has no effect on a PostgreSQL store: its own tools check its files")
    found = [*check_machine(), *check_types(), *perform(_check(app, full=full))]
    document = {
        "store": app.store_settings.place,
        "checks": [_document(check) for check in found],
        "ok": not _failed(found),
    }
    Output(as_json).show(document, lambda: _view(found))
    if _failed(found):
        raise SilentError


async def _check(app: App, *, full: bool) -> list[Check]:
    """From the outside in: what cannot be reached is not opened."""
    settings = app.store_settings
    if settings.is_postgres:
        found = [check async for check in check_database(settings)]
    else:
        found = list(check_file(settings.path, full=full))
    if _failed(found):
        return found
    async with app:
        objects = await check_objects(app.engine.objects, shared=settings.is_postgres)
        return [*found, *await check_store(app.store), objects]


def _document(check: Check) -> dict[str, str]:
    return {"check": check.name, "status": check.status, "found": check.found, "todo": check.todo}


def _failed(found: Iterable[Check]) -> bool:
    return any(check.status == FAIL for check in found)


def _view(found: list[Check]) -> "Iterable[RenderableType]":
    rows = [(c.status, c.name, f"{c.found}: {c.todo}" if c.todo else c.found) for c in found]
    yield table(("", "check", "found"), rows)
    failed = sum(check.status == FAIL for check in found)
    warned = sum(check.status == WARN for check in found)
    problems = f"{count(failed, 'problem')}, {count(warned, 'warning')}"
    yield text(f"\n{problems}" if failed or warned else "\nall is well", style="bold")
