"""The options that many commands share, each spelled and described once."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.", show_default=False)]

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The store, such as sqlite:///jobs.db or postgresql://user@host/db; "
        "else MAINSPRING_STORE, else sqlite:///mainspring.db.",
        show_default=False,
    ),
]

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Ask this server instead of opening a store, such as http://127.0.0.1:8420; else MAINSPRING_SERVER.",
        show_default=False,
    ),
]

AppStoreUrl = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Use this store instead of the application's own.", show_default=False),
]

Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="NAME",
        help="The tenant that is meant; else the key's own at a server, `default` in a store.",
        show_default=False,
    ),
]

JobTenant = Annotated[
    str | None,
    typer.Option(
        "--tenant", metavar="NAME", help="The tenant whose job it is; at a server else the key's.", show_default=False
    ),
]

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id.", show_default=False)]

JobIds = Annotated[list[str], typer.Argument(metavar="ID...", help="The jobs' ids.", show_default=False)]

WaitTimeout = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Give up waiting after this long (exit code 4).", show_default=False),
]
