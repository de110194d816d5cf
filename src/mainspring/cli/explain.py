"""`mainspring jobs explain`: why is this job not running?"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, JobId, StoreUrl
from mainspring.cli.output import Output, text
from mainspring.core.partition import format_id, parse_id
from mainspring.verbs.explaining import Cause, causes
from mainspring.verbs.facts import Facts, gather

if TYPE_CHECKING:
    from rich.console import RenderableType


def explain(job: JobId, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Say why a job is not running, or how it ended, in words."""
    perform(_explain(parse_id(job), store, Output(as_json)))


async def _explain(job: bytes, store: str | None, output: Output) -> None:
    async with opened(store) as app:
        facts = await gather(app.store, job)
    found = causes(facts)
    document = {
        "id": format_id(job),
        "kind": facts.record.kind,
        "state": facts.record.state,
        "causes": [{"code": cause.code, "text": cause.text} for cause in found],
    }
    output.show(document, lambda: _view(facts, found))


def _view(facts: Facts, found: list[Cause]) -> "Iterable[RenderableType]":
    yield text(f"{facts.record.kind} {format_id(facts.record.id)} is {facts.record.state}.", style="bold")
    for cause in found:
        yield text(cause.text)
