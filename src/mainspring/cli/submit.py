"""`mainspring submit`: a job from the command line, with or without the application's code.

Without it, kinds and their defaults come from the store, where the application left them when it last ran; with `--app`,
arguments are also checked against the function.
"""

from typing import Annotated, Any

import typer
from msgspec import UNSET, structs

from mainspring.app import App
from mainspring.cli.loading import load_app
from mainspring.cli.opening import opened, perform, use
from mainspring.cli.options import AsJson, ServerUrl, StoreUrl
from mainspring.cli.output import Output
from mainspring.cli.reading import read_arguments
from mainspring.cli.waiting import await_end, end_line, raise_unless_completed
from mainspring.core.draft import Draft
from mainspring.core.duration import parse_duration
from mainspring.core.options import JobOptions, merged, parse_options
from mainspring.core.options_json import options_document, read_moment
from mainspring.core.partition import format_id
from mainspring.core.timer import read_time
from mainspring.core.words import listed
from mainspring.errors import InvalidError, NotFoundError
from mainspring.execute.types.catalogue import COMMANDS, find_kind
from mainspring.submit import without_conflicts
from mainspring.verbs import documents as d
from mainspring.verbs.faces import Jobs

_Text = str | None

# Options that the command and `parse_options` call the same.
_SAME = (
    *("queue", "tenant", "client", "priority", "complexity", "retries", "backoff", "timeout", "delay"),
    *("key", "unique", "cache", "result_ttl", "limit_key", "cpu", "memory_mb", "gpu"),
)


def _option(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help, show_default=False)


_Kind = Annotated[str, typer.Argument(metavar="KIND", help="What to run.", show_default=False)]
_Args = Annotated[
    str, typer.Option(metavar="JSON", help="A JSON object with the arguments, @FILE, or - for standard input.")
]
_Command = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- COMMAND...]",
        help="For kinds that run a command: the program and its arguments.",
        show_default=False,
    ),
]
_Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended and print the result.")]


def submit(
    kind: _Kind,
    command: _Command = None,
    args: _Args = "{}",
    delay: Annotated[_Text, _option("DURATION", "Start after this long, such as 30s or 1h30m.")] = None,
    at: Annotated[_Text, _option("TIME", "Start at this time, such as 2030-01-31T09:00:00Z.")] = None,
    priority: Annotated[int | None, _option("1-10", "10 comes first.")] = None,
    queue: Annotated[_Text, _option("NAME", "The queue; else the kind's.")] = None,
    key: Annotated[_Text, _option("TEXT", "One job per key: a repeated submit finds the first.")] = None,
    deadline: Annotated[_Text, _option("DURATION|TIME", "When it should have ended; raises its urgency.")] = None,
    start_by: Annotated[_Text, _option("DURATION|TIME", "Cancel it if it has not started by then.")] = None,
    tenant: Annotated[_Text, _option("NAME", "The tenant it belongs to.")] = None,
    client: Annotated[_Text, _option("NAME", "Who submits it.")] = None,
    tag: Annotated[list[str] | None, _option("TEXT", "A tag; may be repeated.")] = None,
    label: Annotated[list[str] | None, _option("TEXT", "A label the worker must have; may be repeated.")] = None,
    retries: Annotated[int | None, _option("NUMBER", "Further tries after a failure.")] = None,
    backoff: Annotated[_Text, _option("DURATION", "The first wait before a retry; it doubles.")] = None,
    timeout: Annotated[_Text, _option("DURATION", "How long one attempt may run.")] = None,
    unique: Annotated[_Text, _option("DURATION", "One job with the same arguments within this long.")] = None,
    cache: Annotated[_Text, _option("DURATION", "As --unique, unless that job failed or its result is gone.")] = None,
    result_ttl: Annotated[_Text, _option("DURATION", "How long its result and files are kept.")] = None,
    limit_key: Annotated[_Text, _option("TEXT", "Count against the kind's limits under this key.")] = None,
    secret: Annotated[list[str] | None, _option("NAME=SECRET", "A secret for the job; may be repeated.")] = None,
    complexity: Annotated[int | None, _option("1-10", "10 is the heaviest.")] = None,
    cpu: Annotated[float | None, _option("CORES", "CPU cores it needs.")] = None,
    memory_mb: Annotated[int | None, _option("MB", "Memory it needs.")] = None,
    gpu: Annotated[int | None, _option("NUMBER", "GPUs it needs.")] = None,
    app: Annotated[_Text, _option("MODULE:APP", "Check the arguments against this application.")] = None,
    wait: _Wait = False,
    wait_timeout: Annotated[_Text, _option("DURATION", "With --wait: give up after this long (exit code 4).")] = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job; it is durable when its id is printed.

    Job types need no application: `mainspring submit script -- echo hello`.
    """
    options = _options(dict(locals()))
    within_s = _within(wait, wait_timeout)
    values = _with_command(kind, read_arguments(args), command)
    perform(_submit(kind, values, options, app, store, server, wait, within_s, Output(as_json)))


def _with_command(kind: str, values: dict[str, Any], command: list[str] | None) -> dict[str, Any]:
    if not command:
        return values
    if kind not in COMMANDS:
        raise InvalidError("command", f"is for {listed(COMMANDS)}: give the arguments of {kind} with --args")
    if "command" in values:
        raise InvalidError("command", "is given twice, in --args and after --")
    return values | {"command": command}


def _options(given: dict[str, Any]) -> JobOptions:
    """The job's options among everything the command was given."""
    return parse_options(
        at=None if given["at"] is None else read_time("at", given["at"]),
        deadline=read_moment("deadline", given["deadline"]),
        start_by=read_moment("start_by", given["start_by"]),
        tags=given["tag"] or None,
        labels=given["label"] or None,
        secrets=_secrets(given["secret"] or []) or None,
        **{name: given[name] for name in _SAME},
    )


def _secrets(given: list[str]) -> dict[str, str]:
    """`TOKEN=api-token`; `TOKEN` alone is a secret of the same name."""
    pairs = [text.partition("=") for text in given]
    return {own: name or own for own, _, name in pairs}


def _within(wait: bool, wait_timeout: str | None) -> float | None:
    if wait_timeout is None:
        return None
    if not wait:
        raise InvalidError("wait-timeout", "has no effect without --wait")
    return parse_duration("wait-timeout", wait_timeout)


async def _submit(
    kind: str,
    values: dict[str, Any],
    options: JobOptions,
    target: str | None,
    store: str | None,
    server: str | None,
    wait: bool,
    within_s: float | None,
    output: Output,
) -> None:
    tenant = None if options.tenant is UNSET else options.tenant
    if target is not None:
        application = load_app(target)
        use(application, store, server)
        draft = _checked_draft(application, target, kind, values, options)
        async with application:
            await _hand_in(application.verbs(tenant).jobs, draft, wait, within_s, output)
        return
    async with opened(store, server) as application:
        jobs = application.verbs(tenant).jobs
        draft = await jobs.draft(d.SubmitRequest(kind=kind, arguments=values, options=options_document(options)))
        await _hand_in(jobs, draft, wait, within_s, output)


def _checked_draft(app: App, target: str, kind: str, values: dict[str, Any], options: JobOptions) -> Draft:
    known = find_kind(app.registry, kind)
    if known is None:
        names = listed(sorted(app.registry.names()), 20) or "none"
        raise NotFoundError(f"{target} has no kind {kind!r}; it has {names}")
    defaults = {declared.name: declared.options for declared in app.declared[0]}
    return Draft(kind, known.encode((), values), merged(defaults.get(kind, JobOptions()), options))


async def _hand_in(jobs: Jobs, draft: Draft, wait: bool, within_s: float | None, output: Output) -> None:
    (made,) = without_conflicts([draft], await jobs.submit([draft]))
    job = format_id(made.id)
    if wait:
        if not output.as_json:
            output.say(job)
        ended = await await_end(jobs, job, within_s)
        output.show(structs.asdict(ended) | {"existed": made.existed}, lambda: [end_line(ended)])
        raise_unless_completed(ended)
        return
    document = {"id": job, "kind": draft.kind, "existed": made.existed}
    output.show(document, lambda: [f"{job}{' (was there already)' if made.existed else ''}"])
