"""Objects of sealed tenants: ciphertext in their place, whatever wrote them, and plain to everybody who may see them."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import App, Context, JobFailedError
from mainspring.app.handle import Job
from mainspring.core.partition import make_id
from mainspring.errors import SecretsError
from mainspring.secrets.keys import VARIABLE
from mainspring.secrets.objects import PIECE, SealedObjects, _Cipher
from mainspring.testing import ManualNode
from service.serving import served
from service.test_workers import worker_key, working
from service.vaults import NEW, OLD

PATIENT = "the patient's name"  # what must not be found
JOB = make_id(1, 2, 3)
NAME = "outputs/000001/file"


class Clinic:
    """An application whose one job leaves everything behind that a job can, made twice: for the server and for who submits."""

    def __init__(self, *where: str) -> None:
        self.app = app = App(*where)

        @app.job(retries=0)
        async def visit(ctx: Context, count: int) -> list[str]:
            ctx.log(PATIENT)
            await ctx.emit(PATIENT)
            await ctx.checkpoint(PATIENT)
            await ctx.step("look", lambda: PATIENT)
            path = ctx.scratch / "scan"
            path.write_bytes(PATIENT.encode() * count)
            await ctx.output(path)
            await ctx.output(PATIENT.encode(), name="note")
            return [PATIENT] * count

        self.visit = visit


def stored(folder: Path) -> dict[str, bytes]:
    """Objects as they lie there, by room."""
    found = [path for path in (folder / "jobs.db.objects" / "jobs").rglob("*") if path.is_file()]
    return {"/".join(path.parts[path.parts.index("jobs") + 3 :]): path.read_bytes() for path in found}


def place_of(folder: Path) -> Path:
    (path,) = folder.rglob("file")
    return path


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, OLD)


@pytest.mark.parametrize("where", ["store", "server"])
async def test_everything_is_ciphertext_and_readers_see_nothing_of_that(folder: Path, where: str) -> None:
    here = Clinic(f"sqlite:///{folder}/jobs.db")
    async with served(here.app) as server:
        there = here if where == "store" else Clinic(server.url)
        async with there.app:
            await there.app.verbs().tenants.seal("default", True)
            job = await there.visit.submit(100_000)
            assert await job.result(timeout=20) == [PATIENT] * 100_000
            path = folder / "scan"
            await job.download("scan", path)
            assert path.read_bytes() == PATIENT.encode() * 100_000
            listed = {each.name: each for each in await job.outputs()}
            assert listed["note"].size == len(PATIENT)  # of the plain bytes
            assert listed["note"].sha256 == hashlib.sha256(PATIENT.encode()).hexdigest()
            jobs = there.app.verbs("default").jobs
            assert [part.text async for part in jobs.logs(job.id)] == [f"{PATIENT}\n"]
            assert [bytes(each.value) async for each in jobs.partial(job.id)] == [f'"{PATIENT}"'.encode()]
            assert list(await there.app.verbs("default").secrets.list()) == []
    found = stored(folder)
    assert {name.partition("/")[0] for name in found} == {"logs", "partial", "checkpoints", "steps", "outputs"}
    assert [name for name, data in found.items() if PATIENT.encode() in data or b"sealed-object" not in data[:40]] == []


async def test_what_goes_on_from_a_checkpoint_reads_it(folder: Path) -> None:
    app = App(f"sqlite:///{folder}/jobs.db")

    @app.job(retries=1, backoff=0)
    async def walk(ctx: Context) -> str:
        if ctx.resume is None:
            await ctx.checkpoint(PATIENT)
            raise ValueError("again")
        return str(ctx.resume)

    async with ManualNode(app, own_store=True) as node:
        await app.verbs().tenants.seal("default", True)
        job = await walk.submit()
        await node.tick()
        await node.advance("1m")
        assert await job.result() == PATIENT


async def test_without_keys_the_attempt_fails_and_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = Clinic(f"sqlite:///{folder}/jobs.db")

    @clinic.app.job(retries=0)
    async def long() -> str:
        return "x" * 100_000

    async with clinic.app:
        jobs: list[Job[Any]] = [await long.submit(), await clinic.visit.submit(1)]
        await clinic.app.verbs().tenants.seal("default", True)
    monkeypatch.delenv(VARIABLE)
    async with ManualNode(clinic.app, own_store=True) as node:
        await node.tick()
        for job in jobs:
            with pytest.raises(JobFailedError, match="there are no keys"):
                await job.result()
        assert (await jobs[0].status()).reason == "secrets"
    assert stored(folder) == {}


async def test_without_keys_at_its_server_a_worker_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = f"sqlite:///{folder}/jobs.db"

    def application(where: str, **more: Any) -> tuple[App, Any]:
        app = App(where, **more)

        @app.job(retries=0)
        async def long() -> str:
            return "x" * 100_000

        return app, long

    app, long = application(store)
    async with app:
        job = await long.submit()
        await app.verbs().tenants.seal("default", True)
    monkeypatch.delenv(VARIABLE)
    async with served(App(store), keys=True) as server:
        there, _ = application(server.url, key=await worker_key(server))
        async with working(there), App(server.url, key=server.key) as asker:
            ended = asker.get(job.id)
            with pytest.raises(JobFailedError, match="there are no keys"):
                await ended.result(timeout=20)
            assert (await ended.status()).reason == "secrets"


async def test_objects_survive_a_change_of_the_master_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(f"sqlite:///{folder}/jobs.db")
    async with app:
        await app.verbs().tenants.seal("default", True)
        await app.engine.sealed.put("default", JOB, NAME, PATIENT.encode())
    monkeypatch.setenv(VARIABLE, f"{NEW},{OLD}")
    async with app:
        await app.verbs().secrets.rotate()
    monkeypatch.setenv(VARIABLE, NEW)
    async with app:
        assert await app.engine.sealed.read("default", JOB, NAME) == PATIENT.encode()


@pytest.fixture
async def sealed(folder: Path) -> AsyncIterator[SealedObjects]:
    app = App(f"sqlite:///{folder}/jobs.db")
    async with app:
        await app.verbs().tenants.seal("default", True)
        yield app.engine.sealed


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE, 5 * PIECE + 7])
async def test_any_size_from_any_source(sealed: SealedObjects, folder: Path, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    (folder / "source").write_bytes(data)

    async def coming() -> AsyncIterator[bytes]:
        for start in range(0, size, 300_000):
            yield data[start : start + 300_000]

    for source in (data, folder / "source", coming()):
        await sealed.put("default", JOB, NAME, source)
        assert await sealed.read("default", JOB, NAME) == data
        (kept,) = stored(folder).values()
        assert size < len(kept) <= size + 200


async def test_sealing_something_large_leaves_others_their_turns(
    sealed: SealedObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, sealed_in = 0, []

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    seal = _Cipher.seal

    def noted(cipher: _Cipher, number: int, last: bool, piece: bytes) -> bytes:
        sealed_in.append(turn)
        return seal(cipher, number, last, piece)

    monkeypatch.setattr(_Cipher, "seal", noted)
    beside = asyncio.create_task(others())
    await sealed.put("default", JOB, NAME, bytes(4 * PIECE))
    beside.cancel()
    assert len(set(sealed_in)) == len(sealed_in) == 4


async def test_what_was_stored_before_is_read_as_it_is(sealed: SealedObjects) -> None:
    await sealed.put("other", JOB, NAME, b"plain")
    assert await sealed.read("default", JOB, NAME) == b"plain"


async def test_cut_short_reordered_altered_or_moved_it_does_not_open(sealed: SealedObjects, folder: Path) -> None:
    await sealed.put("default", JOB, NAME, b"a" * PIECE + b"b" * PIECE + b"c" * PIECE)
    ((_, kept),) = stored(folder).items()
    path = place_of(folder)
    head, step = len(kept) - 3 * (PIECE + 16), PIECE + 16
    one, two, three = (kept[head + n * step : head + (n + 1) * step] for n in range(3))
    broken = {
        "without its last piece": kept[:head] + one + two,
        "without its first": kept[:head] + two + three,
        "in another order": kept[:head] + two + one + three,
        "longer": kept + three,
        "with one bit changed": kept[:-1] + bytes([kept[-1] ^ 1]),
        "with another salt": kept[: head - 1] + bytes([kept[head - 1] ^ 1]) + kept[head:],
        "its head": kept[:head],
        "half of its head": kept[: head - 20],
        "a byte less": kept[:-1],
    }
    for how, data in broken.items():
        path.write_bytes(data)
        with pytest.raises(SecretsError):
            pytest.fail(f"opened {how}: {len(await sealed.read('default', JOB, NAME))} bytes")
    path.write_bytes(kept)
    other = path.with_name("other")
    other.write_bytes(kept)
    with pytest.raises(SecretsError):
        await sealed.read("default", JOB, "outputs/000001/other")
    assert len(await sealed.read("default", JOB, NAME)) == 3 * PIECE
