"""`mainspring jobs explain`: why is this job not running?"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, JobId, JobTenant, ServerUrl, StoreUrl
from mainspring.cli.output import Output, text
from mainspring.verbs.documents import Explanation

if TYPE_CHECKING:
    from rich.console import RenderableType


def explain(
    job: JobId, tenant: JobTenant = None, store: StoreUrl = None, server: ServerUrl = None, as_json: AsJson = False
) -> None:
    """Say why a job is not running, or how it ended, in words."""

    async def work() -> None:
        async with opened(store, server) as app:
            found = await app.verbs(tenant).jobs.explain(job)
        Output(as_json).show(found, lambda: _view(found))

    perform(work())


def _view(found: Explanation) -> "Iterable[RenderableType]":
    yield text(f"{found.kind} {found.id} is {found.state}.", style="bold")
    for cause in found.causes:
        yield text(cause.text)
