"""The application of the HTTP bench: run by remote workers (`mainspring worker bench.http_app:app --server …`)."""

import os
import time

from mainspring import App

app = App(os.environ.get("MAINSPRING_STORE", "sqlite:///never-opened.db"))


@app.job(retries=0)
async def noop(argument: str) -> None:
    """Nothing."""


@app.job(retries=0)
async def started() -> int:
    """When it started, in nanoseconds: on one machine everybody has the same clock."""
    return time.time_ns()
