"""A tour of what jobs can do. `mainspring dev examples.tour:app` (or `make run`) runs it and shows what happens.

An application is a module with an `App` and some functions. Change this file, press Ctrl-C, start again: what has been
submitted is in the store, mainspring.db, and goes on where it was.
"""

import asyncio

from mainspring import App, Context

app = App()


@app.job(queue="mail", timeout="30s")
async def send_mail(to: str, subject: str) -> str:
    """Async functions run in the event loop: a hundred at once cost little."""
    await asyncio.sleep(0.3)
    return f"{subject!r} is on its way to {to}"


@app.job(pool="process")
def count_primes(below: int) -> int:
    """Work that keeps a core busy runs in a process of its own, where it disturbs nobody."""
    return sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in range(2, below))


@app.job(retries=3, backoff="4s")
async def charge_card(ctx: Context, amount: int) -> str:
    """The first attempt fails, as things do; Mainspring tries again a little later. `ctx` is filled in when it runs."""
    if ctx.attempt == 1:
        raise ConnectionError("the bank does not answer")
    return f"{amount} paid at attempt {ctx.attempt}"


@app.schedule("*/10 * * * * *")  # seconds first: every ten of them
@app.job()
def heartbeat() -> str:
    """Schedules make jobs at the times of a cron rule. Sync functions like this one run in threads."""
    return "still here"


@app.on_start
async def submit_some_jobs() -> None:
    """A real application submits from its web handlers or scripts; see quickstart.py and sync_web.py."""
    await send_mail.submit("ada@example.org", subject="Welcome")
    await count_primes.submit(200_000)
    await charge_card.submit(42)
    await send_mail.options(delay="8s", priority=9).submit("ada@example.org", subject="How is it going?")
