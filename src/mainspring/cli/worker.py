"""`mainspring worker`: schedule and execute an application's jobs until asked to stop."""

import asyncio
from typing import Annotated

import typer

from mainspring.app import App
from mainspring.cli.failures import AppError
from mainspring.cli.loading import load_app
from mainspring.cli.logs import configure_logs
from mainspring.cli.options import AppStoreUrl, AsJson
from mainspring.config import run_settings, store_settings
from mainspring.core.options import parse_options
from mainspring.runtime.log import get_logger
from mainspring.runtime.loop import new_event_loop

_log = get_logger("mainspring.cli")

Target = Annotated[
    str, typer.Argument(metavar="MODULE:APP", help="Where the application is, such as tasks:app.", show_default=False)
]
Slots = Annotated[int | None, typer.Option(metavar="NUMBER", help="Jobs at once; else MAINSPRING_SLOTS, else 100.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="TEXT", help="A label that jobs may ask for; may be repeated.")
]
Grace = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="For running jobs when asked to stop; else MAINSPRING_GRACE, else 30s."),
]


def worker(
    target: Target,
    slots: Slots = None,
    grace: Grace = None,
    label: Labels = None,
    store: AppStoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Execute an application's jobs until asked to stop.

    On SIGTERM or Ctrl-C no new job begins, what runs may end within the grace, and the rest goes to other workers.

    Log lines go to standard output: readable at a terminal, JSON otherwise or with --json.
    """
    run_settings(slots=slots, grace=grace)
    parse_options(labels=label)
    configure_logs(as_json=as_json)
    app = application(target, store)

    async def work() -> None:
        _log.info("starting", app=target, store=app.store_settings.place, kinds=sorted(app.registry.names()))
        await app.run(slots=slots, grace=grace, labels=label or ())

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work())


def application(target: str, store: str | None) -> App:
    """The application to run, on the store that was asked for."""
    app = load_app(target)
    if store is not None:
        app.store_settings = store_settings(store)
    if not len(app.registry):
        raise AppError(f"{target} has no jobs: is the module with the @app.job functions imported there?")
    return app
