"""`mainspring worker`: schedule and execute an application's jobs until asked to stop; at a server only execute."""

import asyncio
from typing import Annotated

import typer

from mainspring.app import App
from mainspring.cli.failures import AppError
from mainspring.cli.loading import load_app
from mainspring.cli.logs import configure_logs
from mainspring.cli.opening import use
from mainspring.cli.options import AppStoreUrl, AsJson
from mainspring.config import run_settings
from mainspring.core.options import parse_options
from mainspring.runtime.log import get_logger
from mainspring.runtime.loop import new_event_loop

_log = get_logger("mainspring.cli")

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:APP]",
        help="Where the application is, such as tasks:app; not needed with --types.",
        show_default=False,
    ),
]
Slots = Annotated[int | None, typer.Option(metavar="NUMBER", help="Jobs at once; else MAINSPRING_SLOTS, else 100.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="TEXT", help="A label that jobs may ask for; may be repeated.")
]
Types = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Job types to run too, such as script,http, or all that this machine has; else MAINSPRING_TYPES, else none.",
        show_default=False,
    ),
]
Grace = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="For running jobs when asked to stop; else MAINSPRING_GRACE, else 30s."),
]

WorkServerUrl = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Execute for this server, such as https://jobs.example.com."),
]
JoinToken = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN", help="Exchanged once for a worker's key; else MAINSPRING_JOIN_TOKEN.", show_default=False
    ),
]


def worker(
    target: Target = None,
    slots: Slots = None,
    grace: Grace = None,
    label: Labels = None,
    types: Types = None,
    store: AppStoreUrl = None,
    server: WorkServerUrl = None,
    join_token: JoinToken = None,
    as_json: AsJson = False,
) -> None:
    """Execute an application's jobs until asked to stop, or jobs of types that need no application, such as scripts.

    With --server it works for that server, with the key in MAINSPRING_KEY or the one that --join-token gets; it needs no store.

    On SIGTERM or Ctrl-C no new job begins, what runs may end within the grace, and the rest goes to other workers.

    Log lines go to standard output: readable at a terminal, JSON otherwise or with --json.
    """
    settings = run_settings(slots=slots, grace=grace, types=types)
    parse_options(labels=label)
    configure_logs(as_json=as_json)
    app = application(target, store, server, types=settings.types)

    async def work() -> None:
        kinds = sorted(app.registry.names())
        _log.info("starting", app=target, store=app.settings.place, kinds=kinds, types=settings.types)
        await app.run(slots=slots, grace=grace, labels=label or (), types=settings.types, join_token=join_token)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work())


def application(
    target: str | None, store: str | None, server: str | None = None, *, types: tuple[str, ...] = ()
) -> App:
    """The application to run, on the store or at the server that was asked for; an empty one where only types shall run."""
    if target is None and not types:
        raise AppError("say which application to run, such as tasks:app, or which job types, such as --types script")
    app = App() if target is None else load_app(target)
    use(app, store, server)
    if not (len(app.registry) or any(app.declared) or types):
        raise AppError(f"{target} has no jobs: is the module with the @app.job functions imported there?")
    return app
