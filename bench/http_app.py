"""The application that `bench.http` runs behind a server. Where it is, MAINSPRING_STORE and MAINSPRING_KEY say."""

import time

from mainspring import App

app = App()


@app.job(queue="bench")
async def nothing(number: int) -> None: ...


@app.job(queue="quick")
async def stamp() -> int:
    """When it began, as this machine counts."""
    return time.time_ns()
