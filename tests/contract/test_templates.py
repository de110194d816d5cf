"""Templates: versions by compare-and-set, a current one, and those they are shared with."""

import asyncio

from msgspec import structs

from contract.scene import START, Scene
from mainspring.store.service import ALL_TENANTS, TemplateRecord


def template(name: str, version: int = 1, **fields: object) -> TemplateRecord:
    made = TemplateRecord(
        tenant="acme",
        name=name,
        version=version,
        definition=b'{"version":%d}' % version,
        created_at=START + version,
        created_by="somebody",
        current=version,
    )
    return structs.replace(made, **fields)


async def versions(scene: Scene, name: str) -> list[int]:
    return [record.version for record in await scene.store.list_template_versions("acme", name)]


async def test_each_version_is_kept_and_the_last_one_put_is_current(scene: Scene) -> None:
    for version in (1, 2, 3):
        assert await scene.store.put_templates([template("t", version)]) == [True]
    assert await scene.store.list_template_versions("acme", "t") == [template("t", n, current=3) for n in (3, 2, 1)]
    assert await scene.store.list_templates("acme") == [template("t", 3)]
    assert await scene.store.list_template_versions("acme", "none") == []


async def test_a_version_that_does_not_follow_the_last_one_is_refused(scene: Scene) -> None:
    assert await scene.store.put_templates([template("t", 2)]) == [False]
    await scene.store.put_templates([template("t")])
    for version in (1, 3):
        assert await scene.store.put_templates([template("t", version)]) == [False]
    assert await versions(scene, "t") == [1]


async def test_one_that_does_not_follow_keeps_all_of_them_from_being_written(scene: Scene) -> None:
    await scene.store.put_templates([template("a")])
    before = await scene.everything()
    answers = await scene.store.put_templates([template("b"), template("a", 1), template("a", 2)])
    assert answers[1] is False
    assert await scene.everything() == before
    assert await scene.store.put_templates([template("b"), template("a", 2), template("a", 3)]) == [True] * 3
    assert await versions(scene, "a") == [3, 2, 1]


async def test_of_many_who_put_the_same_version_at_once_one_does(scene: Scene) -> None:
    await scene.store.put_templates([template("t")])
    stores = [scene.store, await scene.backend.open(scene.clock)]
    try:
        puts = (store.put_templates([template("t", 2, created_by=str(n))]) for n, store in enumerate(stores * 3))
        answers = await asyncio.gather(*puts)
    finally:
        await stores[1].close()
    assert sorted(answers) == [[False]] * 5 + [[True]]
    assert (await scene.store.list_template_versions("acme", "t"))[0].created_by == str(answers.index([True]))


async def test_an_earlier_version_can_be_current_and_the_next_one_still_follows_the_last(scene: Scene) -> None:
    await scene.store.put_templates([template("t"), template("t", 2)])
    assert await scene.store.set_template("acme", "t", current=1, shared_with=())
    assert await scene.store.list_templates("acme") == [template("t", 1)]
    assert await scene.store.put_templates([template("t", 2)]) == [False]
    assert await scene.store.put_templates([template("t", 3)]) == [True]
    assert await scene.store.list_templates("acme") == [template("t", 3)]


async def test_only_what_is_there_can_be_set(scene: Scene) -> None:
    await scene.store.put_templates([template("t")])
    before = await scene.everything()
    assert not await scene.store.set_template("acme", "t", current=2, shared_with=("beta",))
    assert not await scene.store.set_template("acme", "none", current=1, shared_with=())
    assert not await scene.store.set_template("beta", "t", current=1, shared_with=())
    assert await scene.everything() == before


async def test_what_is_not_given_stays_as_it_is(scene: Scene) -> None:
    await scene.store.put_templates([template("t", shared_with=("beta",)), template("t", 2)])
    assert await scene.store.set_template("acme", "t", current=1)
    assert [(t.current, t.shared_with) for t in await scene.store.list_templates("acme")] == [(1, ("beta",))]
    assert await scene.store.set_template("acme", "t", shared_with=())
    assert [(t.current, t.shared_with) for t in await scene.store.list_templates("acme")] == [(1, ())]
    assert not await scene.store.set_template("acme", "none", shared_with=())


async def test_a_tenant_sees_its_own_and_those_shared_with_it(scene: Scene) -> None:
    mine, public = template("mine"), template("public", shared_with=(ALL_TENANTS,))
    shared, foreign = template("shared", tenant="beta", shared_with=("other", "acme")), template("x", tenant="beta")
    await scene.store.put_templates([foreign, shared, public, mine])
    assert await scene.store.list_templates("acme") == [mine, public, shared]
    assert await scene.store.list_templates("other") == [public, shared]
    assert await scene.store.list_templates("beta") == [public, shared, foreign]


async def test_what_is_shared_is_said_by_the_first_version_and_by_whoever_sets_it(scene: Scene) -> None:
    await scene.store.put_templates([template("t", shared_with=("beta",))])
    await scene.store.put_templates([template("t", 2, shared_with=("gamma",))])
    assert [t.shared_with for t in await scene.store.list_template_versions("acme", "t")] == [("beta",), ("beta",)]
    assert await scene.store.set_template("acme", "t", current=2, shared_with=("gamma", "beta"))
    assert [t.shared_with for t in await scene.store.list_templates("gamma")] == [("gamma", "beta")]


async def test_a_deleted_template_is_gone_with_its_versions(scene: Scene) -> None:
    await scene.store.put_templates([template("t"), template("t", 2), template("stays")])
    assert await scene.store.delete_template("acme", "t")
    assert not await scene.store.delete_template("acme", "t")
    assert await scene.store.list_templates("acme") == [template("stays")]
    assert await versions(scene, "t") == []
    assert await scene.store.put_templates([template("t")]) == [True]
