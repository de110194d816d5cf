"""`mainspring doctor`: is everything as it should be, and if not, what to do?"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.app import App
from mainspring.cli.checks import FAIL, WARN, Check, check_file, check_machine
from mainspring.cli.failures import SilentError
from mainspring.cli.opening import perform, store_path
from mainspring.cli.options import AsJson, StoreUrl
from mainspring.cli.output import Output, table, text
from mainspring.cli.storechecks import check_store
from mainspring.cli.words import count

if TYPE_CHECKING:
    from rich.console import RenderableType

Full = Annotated[bool, typer.Option("--full", help="Check the integrity of a large store too; this may take minutes.")]


def doctor(full: Full = False, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Check this machine and the store.

    Every line is ok, warn or fail, with what to do; exit code 1 if something failed.
    """
    app = App(store)
    path = store_path(app.store_url)
    found = [*check_machine(), *check_file(path, full=full)]
    if not any(check.status == FAIL for check in found) and path.exists():
        found += perform(_in_store(app))
    document = {"store": str(path), "checks": [_document(check) for check in found], "ok": not _failed(found)}
    Output(as_json).show(document, lambda: _view(found))
    if _failed(found):
        raise SilentError


async def _in_store(app: App) -> list[Check]:
    async with app:
        return await check_store(app.store)


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
