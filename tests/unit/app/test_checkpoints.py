"""State over the whole life of a job: retries, snoozes, replays by hand."""

from pathlib import Path

from mainspring import App, Context, Snooze
from mainspring.core.objects import CHECKPOINTS, LOGS, PARTIAL, attempt_of
from mainspring.core.partition import parse_id
from mainspring.testing import ManualNode
from mainspring.verbs.documents import JobChange, Variation


async def test_a_job_that_snoozes_for_ever_keeps_one_checkpoint() -> None:
    app = App()

    @app.job()
    async def follow(ctx: Context) -> None:
        await ctx.checkpoint((ctx.resume or 0) + 1)
        raise Snooze("1m")

    async with ManualNode(app) as node:
        job = await follow.submit()
        await node.advance("5m")
        (kept,) = await app.engine.objects.find(parse_id(job.id), CHECKPOINTS)
        assert await app.engine.objects.read(parse_id(job.id), kept.name) == b"6"


async def test_a_job_that_snoozes_for_ever_keeps_the_logs_and_partial_results_of_its_last_attempts() -> None:
    app = App()

    @app.job()
    async def watch(ctx: Context) -> None:
        ctx.log("nothing yet")
        await ctx.emit(1)
        await ctx.emit(2)
        raise Snooze("1m")

    async with ManualNode(app) as node:
        job = await watch.submit()
        await node.advance("12m")
        for room, pieces in ((LOGS, 1), (PARTIAL, 2)):
            kept = await app.engine.objects.find(parse_id(job.id), room)
            assert [attempt_of(each.name) for each in kept] == [
                attempt for attempt in range(4, 14) for _ in range(pieces)
            ]
        assert [part.attempt async for part in job.logs()] == list(range(4, 14))


async def test_a_replay_goes_on_and_a_clone_begins_anew() -> None:
    app, broken, done = App(), [True], []

    async def once(number: int) -> int:
        done.append(number)
        return number

    @app.job(retries=0)
    async def work(ctx: Context) -> int:
        start: int = ctx.resume or 0
        for number in range(start, 4):
            if number == 2 and broken:
                raise RuntimeError
            await ctx.step(f"number {number}", once, number)
            await ctx.checkpoint(number + 1)
        return start

    async with ManualNode(app) as node:
        job = await work.submit()
        await node.tick()
        assert (await job.status()).state == "failed"
        broken.clear()
        await app.verbs().jobs.retry(job.id, JobChange())
        await node.tick()
        assert (await job.result(), done) == (2, [0, 1, 2, 3])
        (clone,) = await app.verbs().jobs.clone(job.id, [Variation()])
        await node.tick()
        assert (await app.get(clone.id).result(), done) == (0, [0, 1, 2, 3] * 2)


async def test_looking_for_state_makes_no_folder() -> None:
    """A job with a context that is tried again works where nothing can be written."""
    app = App()

    @app.job(backoff="1s")
    async def flaky(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise RuntimeError
        return ctx.attempt

    async with ManualNode(app) as node:
        job = await flaky.submit()
        await node.advance("1m")
        assert await job.result() == 2
        assert not Path(app.engine.objects.url).exists()  # noqa: ASYNC240
