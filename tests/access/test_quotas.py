"""How much a tenant may have at once."""

from typing import Any, cast

import pytest

from access.scene import ROOT, Seconds, Watched, make_tenant
from contract.scene import make_batch
from mainspring.access.quotas import Quotas
from mainspring.errors import ForbiddenError, InvalidError, LimitedError
from mainspring.store.contract import ScheduleRecord, Store
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def quotas(watched: Watched, seconds: Seconds) -> Quotas:
    return Quotas(cast(Store, watched), seconds)


async def insert(engine: Engine, count: int, tenant: str = "acme", **options: Any) -> None:
    batch, lane = make_batch(engine.store.clock.now(), arguments=[b"{}"] * count, tenant=tenant, **options)
    await engine.store.insert_jobs([batch], [lane])


async def test_without_quotas_nothing_is_counted(quotas: Quotas, watched: Watched, engine: Engine) -> None:
    await make_tenant(engine, "acme")
    assert await quotas.run_once() is None
    with quotas.jobs("acme", 1_000_000), quotas.jobs("nobody", 1):
        pass
    async with quotas.schedules("acme"):
        pass
    assert not watched.asked["count_waiting"]


async def test_what_waits_counts_ready_or_not(quotas: Quotas, engine: Engine) -> None:
    await make_tenant(engine, "acme", queued=10)
    await insert(engine, 3)
    await insert(engine, 3, delay="1h", queue="other")
    await insert(engine, 50, tenant="default")
    await quotas.run_once()
    with quotas.jobs("acme", 4):
        pass
    with pytest.raises(LimitedError) as caught, quotas.jobs("acme", 1):
        raise AssertionError
    assert caught.value.field == "queued"
    assert caught.value.retry_after_s == pytest.approx(1.0)
    with quotas.jobs("default", 1):
        pass


async def test_own_submits_count_at_once_and_once(quotas: Quotas, engine: Engine) -> None:
    await make_tenant(engine, "acme", queued=10)
    await quotas.run_once()
    with quotas.jobs("acme", 6), pytest.raises(LimitedError), quotas.jobs("acme", 5):
        raise AssertionError
    await insert(engine, 6)
    with pytest.raises(LimitedError), quotas.jobs("acme", 5):
        raise AssertionError
    await quotas.run_once()  # they are in the store now, and not counted twice
    with quotas.jobs("acme", 4):
        pass


async def test_what_is_taken_in_during_a_count_is_not_forgotten(
    quotas: Quotas, watched: Watched, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_tenant(engine, "acme", queued=10)
    count = engine.store.count_waiting

    async def slowly() -> dict[int, int]:
        counted = await count()
        with quotas.jobs("acme", 8):
            await insert(engine, 8)
        return counted

    monkeypatch.setattr(engine.store, "count_waiting", slowly)
    await quotas.run_once()
    with pytest.raises(LimitedError), quotas.jobs("acme", 3):
        raise AssertionError


async def test_counting_takes_a_bounded_share_of_the_time(
    quotas: Quotas, seconds: Seconds, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_tenant(engine, "acme", queued=10)
    assert await quotas.run_once() == 1.0
    count = engine.store.count_waiting

    async def slowly() -> dict[int, int]:
        seconds.now += 2.0
        return await count()

    monkeypatch.setattr(engine.store, "count_waiting", slowly)
    assert await quotas.run_once() == pytest.approx(38.0)


async def test_submits_per_second(quotas: Quotas, seconds: Seconds, engine: Engine) -> None:
    await make_tenant(engine, "acme", submits_per_s=2)
    await quotas.run_once()
    with quotas.jobs("acme", 20):
        pass
    with pytest.raises(LimitedError) as caught, quotas.jobs("acme", 1):
        raise AssertionError
    assert (caught.value.field, caught.value.retry_after_s) == ("submits_per_s", 0.5)
    seconds.now += 0.5
    with quotas.jobs("acme", 1):
        pass


@pytest.mark.parametrize(
    ("quota", "most"), [({"queued": 5}, 5), ({"submits_per_s": 0.5}, 5), ({"submits_per_s": 0.01}, 1)]
)
async def test_what_can_never_pass_is_refused_for_good(
    quotas: Quotas, engine: Engine, quota: dict[str, float], most: int
) -> None:
    await make_tenant(engine, "acme", **quota)
    await quotas.run_once()
    with pytest.raises(InvalidError, match=f"more than {most} at once"), quotas.jobs("acme", most + 1):
        raise AssertionError
    with quotas.jobs("acme", most):
        pass


async def test_schedules_by_their_number(quotas: Quotas, engine: Engine) -> None:
    await make_tenant(engine, "acme", schedules=2)
    await quotas.run_once()
    for name in "ab":
        async with quotas.schedules("acme"):
            schedule = ScheduleRecord(
                id=f"acme/{name}",
                tenant="acme",
                name=name,
                definition=b"{}",
                origin="user",
                paused=False,
                watermark_at=0,
                runs=0,
                next_at=None,
                version=0,
            )
            assert await engine.store.put_schedules([schedule]) == [True]
    with pytest.raises(LimitedError, match="2 of 2 schedules"):
        async with quotas.schedules("acme"):
            raise AssertionError


async def test_a_changed_quota_holds_when_the_hint_arrives(quotas: Quotas, engine: Engine) -> None:
    await quotas.start()
    try:
        await make_tenant(engine, "acme", queued=0)
        for _ in range(1000):  # the hint wakes the service, which reads the tenants
            if "acme" in quotas._tenants:
                break
            await engine.store.list_tenants()
        with pytest.raises(InvalidError), quotas.jobs("acme", 1):
            raise AssertionError
    finally:
        await quotas.stop()


async def test_nothing_is_added_to_an_erased_tenant(quotas: Quotas, engine: Engine) -> None:
    await make_tenant(engine, "acme")
    await engine.verbs(None, ROOT).tenants.erase("acme")
    await quotas.run_once()
    with pytest.raises(ForbiddenError, match="was erased"), quotas.jobs("acme", 1):
        raise AssertionError
    assert [tenant.quota for tenant in await engine.verbs(None, ROOT).tenants.list()] == [d.Quota()]
