"""`mainspring dev`: run an application here, and show what happens."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from msgspec import Raw

from mainspring import __version__
from mainspring.app import App
from mainspring.app.serving import Serving, is_installed
from mainspring.cli.eventview import event_line
from mainspring.cli.failures import AppError
from mainspring.cli.logs import configure_logs
from mainspring.cli.options import AppStoreUrl, AsJson
from mainspring.cli.output import Output, fields, text
from mainspring.cli.trying import curl_line
from mainspring.cli.watching import Event, Watcher
from mainspring.cli.worker import Slots, application
from mainspring.config import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_STORE, run_settings, serve_settings
from mainspring.core.timer import from_micros
from mainspring.core.words import count, listed
from mainspring.errors import InvalidError
from mainspring.execute.types.catalogue import ALL, chosen
from mainspring.runtime.loop import new_event_loop
from mainspring.store.opening import StoreSettings
from mainspring.store.url import shown_url
from mainspring.verbs.shown import summary_of

_NO_TARGET = (
    "say which application to run, such as `mainspring dev tasks:app` for `app = App()` in tasks.py; "
    "in Mainspring's own folder, try `mainspring dev examples.tour:app`"
)

Target = Annotated[
    str | None,
    typer.Argument(metavar="MODULE:APP", help="Where the application is, such as tasks:app.", show_default=False),
]
Grace = Annotated[str, typer.Option(metavar="DURATION", help="For running jobs when asked to stop.")]
Types = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Job types to run too, such as script,http; '' for none; else MAINSPRING_TYPES, else all that this machine has.",
        show_default=False,
    ),
]
Port = Annotated[int, typer.Option(metavar="NUMBER", help="Where the HTTP API listens; 0: any free port.")]


def dev(
    target: Target = None,
    slots: Slots = None,
    grace: Grace = "5s",
    port: Port = DEFAULT_PORT,
    types: Types = None,
    store: AppStoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Run an application here and show what happens, until Ctrl-C.

    Its jobs and schedules run in this process, and the job types that this machine has; jobs that other processes submit to the
    same store are shown and run too. The HTTP API listens on 127.0.0.1, without keys: whoever can log in to this machine can use
    it, and may run scripts here.
    """
    if target is None:
        raise AppError(_NO_TARGET)
    wanted = types if types is not None else os.environ.get("MAINSPRING_TYPES", ALL)
    names = run_settings(slots=slots, grace=grace, types=wanted).types
    configure_logs(as_json=as_json, level="warning", stream=sys.stderr)
    app = application(target, store)
    output = Output(as_json)
    serving = _serving(port)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run(app, target, slots, grace, names, output, serving))


def _serving(port: int) -> Serving | None:
    """None where the parts of a server are not installed: everything else works without them."""
    if not is_installed():
        return None
    try:
        return Serving(serve_settings(host=DEFAULT_HOST, port=port, keys=False, environ={}))
    except InvalidError as error:
        raise InvalidError("--port", f"{error.problem}, such as --port {port + 1}") from None


async def _run(
    app: App,
    target: str,
    slots: int | None,
    grace: str,
    types: tuple[str, ...],
    output: Output,
    serving: Serving | None,
) -> None:
    watching: list[asyncio.Task[None]] = []

    def begin() -> None:
        _greet(app, target, types, output, serving)
        watcher = Watcher(app.store, _teller(output), lambda: _say(output, "more jobs than this view can follow"))
        watching.append(asyncio.create_task(_watch(watcher)))

    try:
        await app.run(slots=slots, grace=grace, types=types, ready=begin, serving=serving)
    finally:
        if serving is not None:
            serving.close()
        for task in watching:
            task.cancel()
    _say(output, "stopped")


async def _watch(watcher: Watcher) -> None:
    """The view must never end the run."""
    try:
        await watcher.run()
    except asyncio.CancelledError:
        return


def _greet(app: App, target: str, types: tuple[str, ...], output: Output, serving: Serving | None) -> None:
    place = app.store_settings.place
    kinds, _, schedules = app.declared
    names = sorted(app.registry.names())
    url = None if serving is None else serving.address
    run = chosen(types)
    document = {"event": "ready", "app": target, "store": place, "kinds": names, "types": run, "url": url}
    known = f"{count(len(kinds), 'kind')} of job{': ' if names else ''}{listed(names, 8)}"
    timed = f", {count(len(schedules), 'schedule')}" if schedules else ""
    here = "" if place == StoreSettings(DEFAULT_STORE).place else f" --store {shown_url(app.store_settings.url)}"
    command = _command()
    hints = [
        ("application", f"{target} ({known}{timed})"),
        *([("job types", listed(run))] if run else []),
        ("store", place),
        *_api_hints(app, url),
        ("try, elsewhere", f"{command} jobs list{here}"),
        ("", f"{command} jobs explain ID{here}"),
        ("", f"{command} queues list{here}"),
        ("", f"{command} --help"),
        ("stop", "Ctrl-C"),
    ]
    title = text(f"Mainspring {__version__}", style="bold")
    output.show(document, lambda: [title, fields(hints), ""])


def _api_hints(app: App, url: str | None) -> list[tuple[str, str]]:
    if url is None:
        return [("HTTP API", "not installed: pip install 'mainspring[server]'")]
    return [
        ("HTTP API", f"{url} (no keys, this machine only); its page is {url}/v1/docs"),
        ("", curl_line(app.registry, url)),
    ]


def _command() -> str:
    """How a person can call this program from here: by its name, or by its path where that is not on theirs."""
    return "mainspring" if shutil.which("mainspring") else os.path.relpath(sys.argv[0])


def _teller(output: Output) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        if output.as_json:
            output.line(_document(event))
        else:
            output.console.print(event_line(event))

    return tell


def _document(event: Event) -> dict[str, object]:
    failure = event.failure
    error = None if failure is None else {"type": failure.type, "message": failure.message}
    told = {"event": event.name, "at": from_micros(event.at), "job": summary_of(event.job)}
    return told | {"result": None if event.result is None else Raw(event.result), "error": error}


def _say(output: Output, said: str) -> None:
    if output.as_json:
        output.line({"event": said})
    else:
        output.say(said)
