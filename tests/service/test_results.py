"""Results of any size and files of jobs: from the function to whoever wants them, over a store and over a server."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import json

from contract.scene import START
from mainspring import App, Context
from mainspring.app.downloads import download
from mainspring.core import objects
from mainspring.core.partition import parse_id
from mainspring.core.timer import SECOND
from mainspring.errors import ConflictError, InvalidError, NotFoundError, ServerError
from mainspring.verbs.faces import Jobs
from mainspring.wire import Stored
from service.places import Place
from service.serving import served, served_apart


class Studio:
    """An application whose jobs leave much behind, made twice: for the server and for who submits."""

    def __init__(self, *where: str) -> None:
        self.app = app = App(*where)

        @app.job()
        async def numbers(count: int) -> list[int]:
            return list(range(count))

        @app.job()
        async def render(ctx: Context, size: int) -> int:
            path = ctx.scratch / "film.mp4"
            path.write_bytes(b"\x00\x01" * (size // 2))
            await ctx.output(path)
            await ctx.output(b"ja", name="sub/../titles.txt")
            return size

        self.numbers, self.render = numbers, render


@pytest.fixture(params=["store", "server"])
async def studio(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Studio]:
    here = Studio(f"sqlite:///{folder}/jobs.db")
    async with served(here.app) as server:
        if request.param == "store":
            yield here
        else:
            there = Studio(server.url)
            async with there.app:
                yield there


async def test_a_result_of_any_size_is_what_was_returned(studio: Studio) -> None:
    for count in (3, 300_000):
        job = await studio.numbers.submit(count)
        assert await job.result(timeout=20) == list(range(count))
        names = [each.name for each in await job.outputs()]
        assert names == ([] if count == 3 else ["result"])
        pieces = [piece async for piece in studio.app.verbs().jobs.result(job.id)]
        assert json.decode(b"".join(pieces)) == list(range(count))


async def test_files_are_listed_and_downloaded(studio: Studio, folder: Path) -> None:
    job = await studio.render.submit(9_000_000)
    assert await job.result(timeout=20) == 9_000_000
    data = b"\x00\x01" * 4_500_000
    film, titles = await job.outputs()
    assert (film.name, film.size, film.media) == ("film.mp4", 9_000_000, "video/mp4")
    assert film.sha256 == hashlib.sha256(data).hexdigest()
    told: list[int] = []
    target = folder / "below"
    target.mkdir()
    found = await job.download("film.mp4", target, lambda done, size: told.append(done))
    assert found == target / "film.mp4"
    assert found.read_bytes() == data
    assert told[-1] == 9_000_000
    assert told == sorted(told)
    assert (await job.download(titles.name, target)).name == "titles.txt"
    named = await job.download(titles.name, target / "other")
    assert named.read_text() == "ja"
    with pytest.raises(NotFoundError, match=r"has no output 'poster'; it has: 'film.mp4', "):
        await job.download("poster", target)
    with pytest.raises(InvalidError, match=r"path: there is no folder .*/nowhere: make it first"):
        await job.download("film.mp4", target / "nowhere" / "film.mp4")
    assert sorted(path.name for path in target.iterdir()) == ["film.mp4", "other", "titles.txt"]


def test_without_asyncio(folder: Path) -> None:
    with served_apart(Studio(f"sqlite:///{folder}/jobs.db").app) as server:
        studio = Studio(server.url)
        with studio.app.sync:
            job = studio.render.sync.submit(1000)
            assert job.result(timeout=20) == 1000
            assert [each.name for each in job.outputs()] == ["film.mp4", "sub/../titles.txt"]
            assert job.download("film.mp4", folder / "film").stat().st_size == 1000


# --- what is stored by hand


async def left(place: Place, data: bytes, name: str = "plan", **change: object) -> tuple[str, Jobs]:
    """A job with one file, of which the list says what `change` says."""
    said = {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()} | change
    job = await place.submit()
    session, key = await place.scene.session(), parse_id(job)
    (won,) = (await place.scene.assign(session, [key])).won
    await place.engine.objects.put(key, objects.output(won.attempt + 1, name), data)
    outputs = json.encode([Stored(**said)])  # type: ignore[arg-type]
    expires_at = START + 60 * SECOND
    assert await place.scene.settle(session, key, won.attempt + 1, "completed", outputs=outputs, expires_at=expires_at)
    return job, place.verbs().jobs


async def read(jobs: Jobs, job: str, name: str = "plan") -> bytes:
    return b"".join([piece async for piece in jobs.output(job, name)])


async def test_a_file_that_is_not_what_was_stored_is_an_error_and_leaves_nothing(place: Place, folder: Path) -> None:
    job, jobs = await left(place, b"content", sha256="0" * 64)
    with pytest.raises(ServerError, match="did not come as it was stored"):
        await download(jobs, job, "plan", folder / "plan", lambda done, size: None)
    assert os.listdir(folder) == []


async def test_a_file_that_is_gone_is_an_error(place: Place, folder: Path) -> None:
    job, jobs = await left(place, b"content")
    await place.engine.objects.delete(parse_id(job))
    with pytest.raises(NotFoundError, match="there is no object"):
        await download(jobs, job, "plan", folder / "plan", lambda done, size: None)
    assert os.listdir(folder) == []


async def test_another_tenants_are_not_there(place: Place) -> None:
    job, jobs = await left(place, b"secret")
    assert await read(jobs, job) == b"secret"
    theirs = place.verbs("other").jobs
    for call in (partial(theirs.outputs, job), partial(read, theirs, job), lambda: anext(theirs.result(job))):
        with pytest.raises(NotFoundError, match="there is no job"):
            await call()


async def test_what_has_no_result_says_so(place: Place) -> None:
    jobs = place.verbs().jobs
    job = await place.submit()
    with pytest.raises(ConflictError, match="is pending: wait until it has ended"):
        await anext(jobs.result(job))
    assert await jobs.outputs(job) == []
    await place.fail(job)
    with pytest.raises(ConflictError, match="is failed: it has no result"):
        await anext(jobs.result(job))


async def test_a_result_whose_time_is_over_is_gone(place: Place) -> None:
    job, jobs = await left(place, b"[1]", objects.RESULT)
    assert [piece async for piece in jobs.result(job)] == [b"[1]"]
    before = await jobs.read(job)
    assert (before.expired, [each.name for each in before.outputs]) == (False, ["result"])
    for remove in (False, True):
        place.scene.clock.jump_to(START + 60 * SECOND)
        if remove:
            assert await place.engine.store.expire_results([parse_id(job)]) == 1
        with pytest.raises(NotFoundError, match="result_ttl"):
            await anext(jobs.result(job))
        ended = await asyncio.wait_for(jobs.wait(job), 10)
        for found in (await jobs.read(job), ended):
            assert (found.expired, found.outputs, bytes(found.result)) == (True, [], b"null")
        assert await jobs.outputs(job) == []
