"""`mainspring jobs logs` and `mainspring jobs partial`: what jobs wrote, and what they give out while they run.

Standard output gets what the job wrote and nothing else; what Mainspring has to say about it goes to standard error. Jobs write
what they like, so everything that a terminal might obey is spelled out; `--raw` leaves it as it is, and refuses a terminal.
"""

import sys
from typing import Annotated

import typer

from mainspring.cli.opening import opened, perform
from mainspring.cli.options import AsJson, JobId, JobTenant, ServerUrl, StoreUrl
from mainspring.cli.output import Output
from mainspring.core.segments import NOTE, STREAMS
from mainspring.core.words import clean
from mainspring.errors import InvalidError
from mainspring.verbs.documents import LogPart

Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Go on as it comes, until the job has ended.", show_default=False),
]


def logs(
    job: JobId,
    follow: Follow = False,
    attempt: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Only this attempt; else all of them.", show_default=False)
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Say when, and on which stream, before each line.", show_default=False)
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Leave control characters as they are; not on a terminal.", show_default=False)
    ] = False,
    tenant: JobTenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show what a job wrote.

    The lines of its function, script or container. Control characters are spelled out.
    """
    _check(timestamps=timestamps, raw=raw, as_json=as_json)

    async def work() -> None:
        shown = _Shown(timestamps=timestamps, raw=raw)
        output = Output(as_json)
        async with opened(store, server) as app:
            async for part in app.verbs(tenant).jobs.logs(job, attempt=attempt, follow=follow):
                if as_json:
                    output.line(part)
                else:
                    shown.show(part)
        shown.end()

    perform(work())


def partial(
    job: JobId,
    follow: Follow = False,
    tenant: JobTenant = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show what a job gives out while it runs.

    One JSON value a line; with `--json` also the attempt and the id of each.
    """

    async def work() -> None:
        output = Output(True)
        async with opened(store, server) as app:
            async for given in app.verbs(tenant).jobs.partial(job, follow=follow):
                output.line(given if as_json else given.value)

    perform(work())


def _check(*, timestamps: bool, raw: bool, as_json: bool) -> None:
    if as_json and (timestamps or raw):
        raise InvalidError("json", "has everything anyway: leave --timestamps and --raw out")
    if raw and sys.stdout.isatty():
        raise InvalidError("raw", "would let the job control this terminal: send it to a file or through a pipe")


class _Shown:
    """Lines as they come: a part may end within one."""

    def __init__(self, *, timestamps: bool, raw: bool) -> None:
        self._timestamps = timestamps
        self._raw = raw
        self._attempt = 1
        self._fresh = True  # the next character begins a line

    def show(self, part: LogPart) -> None:
        if part.attempt != self._attempt:
            self._attempt = part.attempt
            self._say(f"attempt {part.attempt}")
        if part.stream == STREAMS[NOTE]:
            self._say(part.text.rstrip("\n"))
            return
        text = part.text if self._raw else clean(part.text.replace("\r\n", "\n"))
        sys.stdout.write(self._stamped(part, text) if self._timestamps else text)
        sys.stdout.flush()
        self._fresh = text.endswith("\n")

    def end(self) -> None:
        if not self._fresh and sys.stdout.isatty():
            sys.stdout.write("\n")

    def _stamped(self, part: LogPart, text: str) -> str:
        stamp = f"{part.at:%Y-%m-%dT%H:%M:%S}.{part.at.microsecond // 1000:03}Z {clean(part.stream, one_line=True):<7} "
        lines = text.split("\n")
        last = lines.pop()
        marked = [stamp + line for line in lines] + ([stamp + last] if last else [""])
        whole = "\n".join(marked)
        return whole if self._fresh else whole.removeprefix(stamp)

    def _say(self, text: str) -> None:
        self.end()
        self._fresh = True
        print(f"mainspring: {clean(text, one_line=True)}", file=sys.stderr, flush=True)
