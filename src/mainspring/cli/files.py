"""`mainspring jobs outputs` and `mainspring jobs download`: the files of a job."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.app.downloads import download as bring
from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, JobId, JobTenant, ServerUrl, StoreUrl
from mainspring.cli.output import Output, table
from mainspring.core.words import size
from mainspring.verbs.documents import OutputDocument

if TYPE_CHECKING:
    from rich.console import RenderableType

_LONG = 16_000_000  # bytes from which on people want to see that something happens


def outputs(
    job: JobId, tenant: JobTenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """List the files of a job.

    The one named result is what the job returned, where that is large.
    """

    async def work() -> None:
        async with opened(store, server) as app:
            found = await app.verbs(tenant).jobs.outputs(job)
        Output(as_json).show({"outputs": found}, lambda: _view(found))

    perform(work())


def download(
    job: JobId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `mainspring jobs outputs` lists it.")],
    to: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file, or a folder that is there; else here.", show_default=False),
    ] = None,
    tenant: JobTenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Download a file of a job.

    It is checked against its checksum, and appears when all of it is there.
    """
    target = to if to is not None else Path()

    async def work() -> Path:
        async with opened(store, server) as app:
            with _progress(name, quiet=as_json) as tell:
                return await bring(app.verbs(tenant).jobs, job, name, target, tell)

    found = perform(work())
    Output(as_json).show({"path": str(found.absolute())}, lambda: [f"{found}"])


def _view(found: Sequence[OutputDocument]) -> "Iterable[RenderableType]":
    if not found:
        yield "no files"
        return
    rows = [(each.name, size(each.size), each.media, each.sha256[:12]) for each in found]
    yield table(("name", "size", "type", "sha256"), rows, right=("size",))


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal, beside the answer, for what takes long."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, whole: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(PurePosixPath(name).name, total=None, visible=False)
        yield lambda done, whole: bar.update(task, completed=done, total=whole, visible=whole >= _LONG)
