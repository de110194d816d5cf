"""`mainspring secrets`: values that jobs name and get, and that nobody reads back; and the keys that seal them."""

import getpass
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.opening import opened, perform, verbs_of
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl, Tenant
from mainspring.cli.output import Output, table, text
from mainspring.core.secret import MAX_SECRET_BYTES
from mainspring.core.words import count, stamp
from mainspring.errors import InvalidError
from mainspring.secrets.keys import VARIABLE, new_key
from mainspring.verbs import documents as d

if TYPE_CHECKING:
    from rich.console import RenderableType

secrets_app = typer.Typer(help="Set, list and delete secrets; change the key that seals them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The secret's name.", show_default=False)]


@secrets_app.command("list")
def list_secrets(
    tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """List secrets, without their values.

    With `--tenant '*'`, those of all tenants.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            found = await verbs_of(app, tenant).secrets.list()
        Output(as_json).show({"secrets": found}, lambda: _view(found))

    perform(work())


def _view(found: Sequence[d.SecretDocument]) -> "Iterable[RenderableType]":
    if not found:
        yield "no secrets: set one with `mainspring secrets set NAME`"
        return
    rows = [(s.name, s.tenant, stamp(s.changed_at), s.changed_by, s.key) for s in found]
    yield table(("name", "tenant", "set", "by", "key"), rows)


@secrets_app.command("set")
def set_secret(
    name: Name, tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """Set a secret. The value is asked for, or read from standard input; it is never an argument, which others could see.

    It needs 4 characters or more: what is shorter could not be masked in logs. One line break at the end of the input is not
    part of it.
    """
    value = _value()

    async def work() -> None:
        async with opened(store, server) as app:
            made = await verbs_of(app, tenant).secrets.set(name, value)
        Output(as_json).show(made, lambda: [text(f"{name} is set")])

    perform(work())


def _value() -> str:
    if sys.stdin.isatty():
        return getpass.getpass("Value: ")
    data = sys.stdin.buffer.read(MAX_SECRET_BYTES + 3)  # with a line break, and one more than is allowed
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise InvalidError("value", "is not UTF-8; encode it, for example with base64") from None


@secrets_app.command()
def delete(
    name: Name, tenant: Tenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """Delete a secret; jobs that need it fail from now on."""

    async def work() -> None:
        async with opened(store, server) as app:
            await verbs_of(app, tenant).secrets.delete(name)
        Output(as_json).show({"name": name, "deleted": True}, lambda: [text(f"{name} is deleted")])

    perform(work())


@secrets_app.command()
def rotate(store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False) -> None:
    """Give all that is sealed the current key: secrets, and arguments and results of sealed tenants.

    Make a key (`secrets new-key`), add it behind the first on every server, then move it to the front everywhere, then run this.
    Everything goes on meanwhile. When it is done, the old key can go.
    """
    perform(_rotate(store, server, Output(as_json)))


async def _rotate(store: str | None, server: str | None, output: Output) -> None:
    changed = unreadable = 0
    async with opened(store, server) as app:
        secrets = app.verbs().secrets
        step = await secrets.rotate()
        while True:
            changed, unreadable = changed + step.changed, unreadable + step.unreadable
            if sys.stderr.isatty():
                print(f"\r{changed:,} changed", end="", file=sys.stderr, flush=True)
            if step.next is None:
                break
            step = await secrets.rotate(step.next)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    answer = {"key": step.key, "changed": changed, "unreadable": unreadable}
    output.show(answer, lambda: [text(_told(step.key, changed, unreadable))])


def _told(key: str, changed: int, unreadable: int) -> str:
    done = f"{count(changed, 'value')} changed to the key {key}; all that can be opened has it now"
    return done if not unreadable else f"{done}. No key here opens {count(unreadable, 'value')}: keep the older keys"


@secrets_app.command("new-key")
def make_key(as_json: AsJson = False) -> None:
    """Make a master key and print it. Nothing is stored: put it into MAINSPRING_SECRET_KEYS, or into its file."""
    made = new_key(datetime.now(UTC).date())
    Output(as_json).show({"key": made}, lambda: [made])
    if not as_json:
        print(
            f"for {VARIABLE}: keep it where only servers read it, and a copy: without it nothing opens", file=sys.stderr
        )
