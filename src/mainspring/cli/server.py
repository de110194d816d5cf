"""`mainspring server`: the HTTP API over a store, with a node beside it."""

import asyncio
from typing import Annotated

import typer

from mainspring.app import App
from mainspring.app.serving import Serving
from mainspring.cli.logs import configure_logs
from mainspring.cli.options import AsJson, StoreUrl
from mainspring.cli.worker import Grace, Slots, Types, application
from mainspring.config import is_loopback, run_settings, serve_settings
from mainspring.runtime.log import get_logger
from mainspring.runtime.loop import new_event_loop

_log = get_logger("mainspring.cli")

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:APP]", help="An application whose jobs shall run in this process too.", show_default=False
    ),
]
Host = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Where to listen; else MAINSPRING_HOST, else 127.0.0.1.")
]
Port = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="The port; 0: any free one; else MAINSPRING_PORT, else 8420.")
]
TlsCert = Annotated[
    str | None, typer.Option(metavar="FILE", help="Certificate chain (PEM), for https; else MAINSPRING_TLS_CERT.")
]
TlsKey = Annotated[str | None, typer.Option(metavar="FILE", help="The key to it; else MAINSPRING_TLS_KEY.")]
NoKeys = Annotated[
    bool,
    typer.Option("--no-keys", help="Let everybody do everything; on the loopback address only.", show_default=False),
]
Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="How other servers on this store reach this one; else MAINSPRING_URL."),
]


def server(
    target: Target = None,
    host: Host = None,
    port: Port = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    no_keys: NoKeys = False,
    url: Url = None,
    types: Types = None,
    slots: Slots = None,
    grace: Grace = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Serve the HTTP API until asked to stop.

    Workers and clients anywhere use it with a key; the first start prints the one key of an administrator, once. On SIGTERM or
    Ctrl-C the server says that it is not ready, lets everybody go who waits, and leaves.
    """
    chosen = run_settings(slots=slots, grace=grace, types=types).types
    settings = serve_settings(host=host, port=port, tls_cert=tls_cert, tls_key=tls_key, keys=not no_keys, url=url)
    configure_logs(as_json=as_json)
    app = App(store) if target is None else application(target, store, types=chosen)
    serving = Serving(settings)
    run = app.run(slots=slots, grace=grace, types=chosen, serving=serving, ready=lambda: _tell(app, serving))
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(run)
    finally:
        serving.close()
    _log.info("stopped")


def _tell(app: App, serving: Serving) -> None:
    _log.info("serving", url=serving.address, docs=f"{serving.address}/v1/docs", store=app.store_settings.place)
    if not serving.settings.keys:
        _log.warning("no keys: whoever can reach this address can do everything", url=serving.address)
    elif serving.settings.tls_cert is None and not is_loopback(serving.settings.host):
        _log.warning("no TLS: keys can be read on their way, unless something before this server encrypts them")
    if serving.first_key is not None:
        # Not a log line: logs are kept, collected and read by many.
        print(
            f"\nThe key of the first administrator, shown once and stored nowhere:\n\n    {serving.first_key}\n",
            flush=True,
        )
