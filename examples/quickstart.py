"""The shortest useful program: define a job, submit it, run it, print its result. Start it with `python examples/quickstart.py`."""

import asyncio

from mainspring import App

app = App()


@app.job(retries=5)
async def greet(name: str) -> str:
    return f"Hello, {name}!"


async def main() -> None:
    async with app:
        running = asyncio.create_task(app.run())  # usually a process of its own: mainspring worker quickstart:app
        job = await greet.submit("World")  # durable from here on
        print(await job.result(timeout=10))
        app.stop()
        await running


if __name__ == "__main__":
    asyncio.run(main())
