"""Jobs that are reused instead of made again: while they are under way, and while their results are there."""

import asyncio
from typing import Any

import pytest

from contract.scene import FAILURE, Scene, make_batch
from mainspring.store.contract import Inserted

HOUR_S = 3600


async def submit(scene: Scene, arguments: bytes = b'{"a":1}', cache: str = "1h", **options: Any) -> Inserted:
    (answer,) = await scene.insert(arguments=[arguments], cache=cache, **options)
    return answer


async def test_a_job_that_is_under_way_or_completed_is_the_answer(scene: Scene) -> None:
    session = await scene.session()
    first = await submit(scene)
    assert not first.existed
    assert await submit(scene) == Inserted(first.id, existed=True)
    await scene.assign(session)
    assert await submit(scene) == Inserted(first.id, existed=True)
    await scene.settle(session, first.id, 1, "completed", result=b"1")
    assert await submit(scene) == Inserted(first.id, existed=True)
    assert scene.count("job") == 1


async def test_what_differs_in_tenant_kind_or_arguments_is_another_job(scene: Scene) -> None:
    first = await submit(scene)
    others = [await submit(scene, b'{"a":2}'), await submit(scene, tenant="b"), await submit(scene, kind="other")]
    assert [other.existed for other in others] == [False] * 3
    assert len({first.id, *(other.id for other in others)}) == 4


async def test_a_job_that_waits_to_be_tried_again_is_under_way(scene: Scene) -> None:
    session = await scene.session()
    first = await submit(scene)
    await scene.assign(session)
    await scene.fail(session, first.id, 1, again_in_s=10)
    assert (await submit(scene)).existed


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_one_that_failed_or_was_cancelled_makes_room_for_the_next(scene: Scene, end: str) -> None:
    session = await scene.session()
    first = await submit(scene)
    if end == "failed":
        await scene.assign(session)
        await scene.fail(session, first.id, 1)
    else:
        await scene.store.cancel_jobs([first.id])
    second = await submit(scene)
    assert (second.existed, second.id == first.id) == (False, False)
    assert await submit(scene) == Inserted(second.id, existed=True)
    await scene.replay(first.id)  # its name is another's now
    assert await submit(scene) == Inserted(second.id, existed=True)
    assert scene.count("claim") == 1


async def test_a_result_that_is_gone_is_not_reused(scene: Scene) -> None:
    session = await scene.session()
    first = await submit(scene, result_ttl="10m")
    scene.clock.advance(1200)  # it counts from the end
    assert (await submit(scene)).existed
    await scene.assign(session)
    await scene.settle(session, first.id, 1, "completed", result=b"1")
    scene.clock.advance(599)
    assert (await submit(scene)).existed
    scene.clock.advance(1)
    assert not (await submit(scene)).existed


async def test_it_ends_with_its_period_and_with_the_job(scene: Scene) -> None:
    session = await scene.session()
    first = await submit(scene)
    scene.clock.advance(HOUR_S)
    second = await submit(scene, cache="100d")
    assert (second.existed, second.id == first.id) == (False, False)
    await scene.assign(session)
    await scene.settle(session, second.id, 1, "completed")
    scene.clock.advance(25 * HOUR_S)
    assert (await submit(scene)).existed
    await scene.prune(1)
    assert not (await submit(scene)).existed


async def test_the_same_insert_again_is_the_same_job_even_when_it_has_failed_since(scene: Scene) -> None:
    session = await scene.session()
    batch, lane = make_batch(scene.clock.now(), arguments=[b'{"a":1}'], cache="1h")
    ((first,),) = await scene.store.insert_jobs([batch], [lane])
    await scene.assign(session)
    await scene.fail(session, first.id, 1)
    before = await scene.everything()
    assert await scene.store.insert_jobs([batch], [lane]) == [[Inserted(first.id)]]
    assert await scene.everything() == before


async def test_of_several_in_one_call_one_is_made(scene: Scene) -> None:
    session = await scene.session()
    for spent in (False, True):
        made = [make_batch(scene.clock.now(), arguments=[b"{}"], cache="1h") for _ in range(3)]
        answers = [answer for (answer,) in await scene.store.insert_jobs([b for b, _ in made], [made[0][1]])]
        assert [answer.existed for answer in answers] == [False, True, True]
        assert len({answer.id for answer in answers}) == 1
        if not spent:
            await scene.assign(session)
            await scene.fail(session, answers[0].id, 1)
    assert scene.count("job") == 2


async def test_of_many_who_find_a_failed_one_at_once_one_makes_the_next(scene: Scene) -> None:
    """From two stores, as two processes would."""
    session = await scene.session()
    other = await scene.backend.open(scene.clock)
    try:
        for _ in range(5):
            batches = [make_batch(scene.clock.now(), arguments=[b"{}"], cache="1h") for _ in range(8)]
            inserts = [
                (scene.store, other)[place % 2].insert_jobs([batch], [lane])
                for place, (batch, lane) in enumerate(batches)
            ]
            answers = [answer for ((answer,),) in await asyncio.gather(*inserts)]
            assert sorted(answer.existed for answer in answers) == [False] + [True] * 7
            assert len({answer.id for answer in answers}) == 1
            await scene.assign(session)
            await scene.settle(session, answers[0].id, 1, "failed", failure=FAILURE, reason="error", counts="failure")
    finally:
        await other.close()
    assert scene.count("job") == 5
