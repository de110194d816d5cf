"""The place of objects, a folder and S3: whole or not at all, in order, in bounded memory, and with errors that say what to do."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mainspring.core import objects
from mainspring.core.partition import format_id, make_id
from mainspring.errors import InvalidError, NotFoundError, StoreUnavailableError
from mainspring.objects import driver
from mainspring.objects.place import ObjectPlace
from objects.conftest import Settings
from objects.seaweed import Seaweed

DAY_MS = 86_400_000
JOB = make_id(20_000 * DAY_MS, 7, 12345)
OTHER = make_id(20_000 * DAY_MS + 1, 7, 12345)
LATER = make_id(20_001 * DAY_MS, 7, 12345)
MEGABYTE = 1_000_000


@pytest.fixture
def place(url: str) -> ObjectPlace:
    return ObjectPlace(url, Settings().agree)


async def pieces(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield bytes([number % 251]) * MEGABYTE


async def test_an_object_is_what_was_put_last(place: ObjectPlace, folder: Path) -> None:
    name = objects.output(1, "ä/../b c.%2F")
    for data in (b"", b"x", b"y" * 9_000_001):
        await place.put(JOB, name, data)
        assert await place.read(JOB, name) == data
    file = folder / "data"
    file.write_bytes(b"z" * 11_000_001)
    await place.put(JOB, name, file)
    assert await place.read(JOB, name) == file.read_bytes()
    await place.put(JOB, name, pieces(12))
    assert [len(piece) async for piece in place.get(JOB, name)] == [4_194_304, 4_194_304, 3_611_392]
    await place.put(JOB, name, pieces(0))
    assert await place.read(JOB, name) == b""


async def test_what_is_not_there(place: ObjectPlace) -> None:
    for _ in range(2):
        with pytest.raises(NotFoundError, match="there is no object jobs/2024-10-04/"):
            await place.read(JOB, objects.step(1, "a"))
        assert await place.find(JOB) == []
        assert await place.delete(JOB) == 0
        await place.put(OTHER, objects.step(1, "a"), b"")
        await place.delete(OTHER)


async def test_they_are_found_in_order_and_removed_by_prefix(place: ObjectPlace) -> None:
    names = [objects.logs(1, number) for number in (10, 2, 1)] + [objects.logs(2, 0), objects.step(1, "s")]
    for name in names:
        await place.put(JOB, name, b"12")
    await place.put(OTHER, objects.logs(1, 5), b"other")
    found = await place.find(JOB, objects.logs(1))
    assert [each.name for each in found] == [objects.logs(1, number) for number in (1, 2, 10)]
    assert {each.size for each in found} == {2}
    behind = await place.find(JOB, "logs/", after=objects.logs(1, 2))
    assert [each.name for each in behind] == [objects.logs(1, 10), objects.logs(2, 0)]
    assert await place.delete(JOB, "logs/") == 4
    assert [each.name for each in await place.find(JOB)] == [objects.step(1, "s")]
    assert len(await place.find(OTHER)) == 1


async def test_days_and_their_jobs(place: ObjectPlace) -> None:
    for job in (LATER, OTHER, JOB):
        await place.put(job, objects.step(1, "s"), b"")
        await place.put(job, objects.logs(1, 0), b"")
    assert await place.days() == ["2024-10-04", "2024-10-05"]
    assert await place.jobs_of("2024-10-04") == [JOB, OTHER]


async def test_an_upload_that_breaks_off_leaves_nothing_and_says_why(place: ObjectPlace) -> None:
    class LostError(Exception):
        pass

    async def lost() -> AsyncIterator[bytes]:
        async for piece in pieces(7):
            yield piece
        raise LostError

    with pytest.raises(LostError):
        await place.put(JOB, objects.step(1, "s"), lost())
    assert await place.find(JOB) == []


async def test_an_upload_that_is_cancelled_leaves_nothing(place: ObjectPlace) -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            async for piece in pieces(7):
                yield piece
            reached.set()
            await asyncio.Event().wait()
        finally:
            left.set()

    putting = asyncio.create_task(place.put(JOB, objects.step(1, "s"), endless()))
    await reached.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert left.is_set()
    assert await place.find(JOB) == []


async def test_a_cancel_is_not_missed_by_an_upload_that_just_asks_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread sleeps between asking and noting whom."""
    asked, cancelled = asyncio.Event(), threading.Event()
    ask = asyncio.run_coroutine_threadsafe

    def slowly(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> "Future[Any]":
        coming = ask(work, loop)
        assert cancelled.wait(20)
        return coming

    async def endless() -> AsyncIterator[bytes]:
        yield bytes(6 * MEGABYTE)
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", slowly)
    putting = asyncio.create_task(ObjectPlace("memory:///").put(JOB, objects.step(1, "s"), endless()))
    await asked.wait()
    putting.cancel()
    asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, cancelled.set)
    done, _ = await asyncio.wait([putting], timeout=10)
    assert done


@pytest.mark.parametrize("size", [10, 6 * MEGABYTE])
async def test_nobody_waits_for_uploads_that_stand_still(folder: Path, size: int) -> None:
    """However many there are: what is read and what is small has its own threads."""
    place = ObjectPlace(str(folder / "objects"), Settings().agree)
    go_on, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * size
        waiting.release()
        await go_on.wait()
        yield b"y"

    async def quick() -> AsyncIterator[bytes]:
        yield b"quick"

    uploads = [asyncio.create_task(place.put(OTHER, objects.logs(1, number), slow())) for number in range(20)]
    try:
        async with asyncio.timeout(10):
            for _ in range(8):
                await waiting.acquire()
            await place.put(JOB, objects.logs(1, 1), quick())
            await place.put(JOB, objects.logs(1, 2), b"quick")
            assert await place.read(JOB, objects.logs(1, 1)) == b"quick"
    finally:
        go_on.set()
        await asyncio.gather(*uploads)
    assert {each.size for each in await place.find(OTHER)} == {size + 1}


async def test_memory_does_not_grow_with_the_object(place: ObjectPlace) -> None:
    """Far more than is allowed to stay: in a process that has not held as much before."""
    script = Path(__file__).with_name("large.py")
    answer = await asyncio.to_thread(
        subprocess.run, [sys.executable, str(script), place.url], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    size, grown = map(int, answer.stdout.split())
    assert size == 200 * MEGABYTE
    assert grown < 70 * MEGABYTE, f"{grown:,} bytes more than before"


# --- what refuses says what to do


async def test_a_folder_that_is_none(folder: Path) -> None:
    (folder / "file").write_text("")
    place = ObjectPlace(str(folder / "file" / "objects"), Settings().agree)
    for attempt in (partial(place.put, JOB, objects.step(1, "s"), b""), place.probe):
        with pytest.raises(StoreUnavailableError, match=r"file/objects cannot be used: .*MAINSPRING_OBJECTS"):
            await attempt()


def test_a_full_disk(folder: Path) -> None:
    code = f"""
import asyncio
from mainspring.objects.place import ObjectPlace
from mainspring.errors import StoreUnavailableError
try:
    asyncio.run(ObjectPlace({str(folder)!r}).put(bytes(16), "steps/s", bytes(3_000_000)))
except StoreUnavailableError as error:
    print(error)
"""
    command = f'mount -t tmpfs -o size=1m none {folder} && exec {sys.executable} -c "$CODE"'
    unshared = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", command]
    answer = subprocess.run(
        unshared, env={**os.environ, "CODE": code}, capture_output=True, text=True, timeout=30, check=False
    )
    if "unshare" in answer.stderr or "mount:" in answer.stderr:
        pytest.skip(f"no small disk can be made here: {answer.stderr.strip()}")
    assert answer.stdout == f"the objects at {folder} cannot be used: the disk is full: free some space\n", answer


@pytest.mark.parametrize(
    ("key", "bucket", "words"),
    [
        ("reader", "jobs", "the key may not do this"),
        ("nobody", "jobs", "AWS_ACCESS_KEY_ID"),
        ("reader", "elsewhere", "there is no such bucket|the key may not do this"),
    ],
)
async def test_s3_that_refuses(
    seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch, key: str, bucket: str, words: str
) -> None:
    for name, value in seaweed.environ(key).items():
        monkeypatch.setenv(name, value)
    place = ObjectPlace(f"s3://{bucket}/x", Settings().agree)
    with pytest.raises(StoreUnavailableError, match=f"s3://{bucket}/x cannot be used: .*({words})"):
        await place.probe()


async def test_s3_without_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with pytest.raises(InvalidError, match="objects: 's3://' cannot be used"):
        await ObjectPlace("s3://", Settings().agree).find(JOB)


# --- whose place it is


async def test_a_place_that_is_only_read_is_not_made(folder: Path) -> None:
    place = ObjectPlace(str(folder / "objects"), Settings().agree)
    assert await place.find(JOB) == []
    await place.probe()
    assert os.listdir(folder) == []
    await place.put(JOB, objects.step(1, "s"), b"1")
    assert oct((folder / "objects").stat().st_mode)[-3:] == "700"


async def test_the_mark_and_the_folder_are_durable_before_the_store_knows_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a loss of power would leave a store that knows a place, and a place that nobody knows."""
    synced: list[str] = []
    before: list[str] = []

    class Noting(Settings):
        async def agree(self, name: str, value: str | None) -> str | None:
            if name == "objects":
                before.extend(synced)
            return await super().agree(name, value)

    sync = driver._sync

    def noted(path: Path) -> None:
        synced.append(path.name)
        sync(path)

    monkeypatch.setattr(driver, "_sync", noted)
    await ObjectPlace(str(folder / "above" / "place"), Noting().agree).put(JOB, objects.logs(1, 1), b"")
    assert before == ["above", folder.name, "mainspring-objects", "place"]


async def test_nodes_of_one_installation_share_a_place(url: str) -> None:
    settings = Settings()
    nodes = [ObjectPlace(url, settings.agree) for _ in range(3)]
    await asyncio.gather(*(node.put(JOB, objects.step(1, str(n)), b"") for n, node in enumerate(nodes)))
    again = ObjectPlace(url, settings.agree)
    assert [found.name for found in await again.find(JOB)] == [objects.step(1, str(n)) for n in range(3)]
    await again.probe()


async def test_a_node_with_another_place_is_refused(url: str) -> None:
    settings = Settings()
    await ObjectPlace(url, settings.agree).put(JOB, objects.step(1, "s"), b"")
    for wrong in (ObjectPlace(f"{url}-other", settings.agree), ObjectPlace(f"{url}-other", settings.agree)):
        for call in (partial(wrong.find, JOB), partial(wrong.put, JOB, objects.step(1, "s"), b""), wrong.probe):
            with pytest.raises(InvalidError, match=r"are not at .*-other: set MAINSPRING_OBJECTS"):
                await call()


async def test_another_installation_is_refused(url: str) -> None:
    await ObjectPlace(url, Settings().agree).put(JOB, objects.step(1, "s"), b"")
    stranger = ObjectPlace(url, Settings().agree)
    for call in (partial(stranger.delete, JOB), partial(stranger.put, JOB, objects.step(1, "s"), b""), stranger.days):
        with pytest.raises(InvalidError, match="another installation: set MAINSPRING_OBJECTS"):
            await call()


def test_names(folder: Path) -> None:
    assert objects.prefix_of(JOB) == f"jobs/2024-10-04/{format_id(JOB)}/"
    name = objects.output(12, "../a/b.tar.gz")
    assert name == "outputs/000012/%2E%2E%2Fa%2Fb%2Etar%2Egz"
    assert objects.name_of(name) == "../a/b.tar.gz"
    with pytest.raises(InvalidError, match=r"name: .* is too long"):
        objects.step(1, "ä" * 100)
