"""Sweeper, ticker, rescuer, pruner, ownership: one step at a time under a clock that stands still."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from dispatch.floor import Floor, open_floor
from msgspec import json, structs

from contract.scene import START
from mainspring.core.options import JobOptions
from mainspring.core.schedule import parse_rule
from mainspring.core.timer import SECOND, from_micros
from mainspring.errors import StoreUnavailableError
from mainspring.runtime.gauges import Gauges
from mainspring.store.contract import Hint
from mainspring.store.service import Quota, TenantRecord
from mainspring.sweep.ownership import LEASE_S, Heartbeat
from mainspring.sweep.pruner import LOOK_S as PRUNE_LOOK_S
from mainspring.sweep.pruner import SOON_S, Pruner
from mainspring.sweep.sweeper import LOOK_S, Sweeper
from mainspring.sweep.ticker import Definition, Ticker
from mainspring.verbs.declaring import first_time

MINUTE = 60 * SECOND


@pytest.fixture
async def floor(folder: Path) -> AsyncIterator[Floor]:
    async with open_floor(folder) as made:
        yield made


def sweeper(floor: Floor) -> Sweeper:
    made = Sweeper(floor.store, floor.clock, Gauges())
    made.own(list(floor.everywhere))

    def listen(hint: Hint) -> None:
        made.hear(hint)

    floor.store.subscribe(listen)
    return made


# --- sweeper


async def test_i8_the_sweeper_rests_until_the_next_timer_and_ripens_it_then(floor: Floor) -> None:
    part = sweeper(floor)
    assert await part.run_once() == LOOK_S
    await floor.submit_one(delay=4)
    assert await part.run_once() == 4.0
    floor.clock.advance(3.999999)
    rest_s = await part.run_once()
    assert 0 < rest_s < 0.0001
    assert await floor.ready() == []
    floor.clock.advance(0.000001)
    await part.run_once()
    assert len(await floor.ready()) == 1


async def test_a_timer_hint_shortens_the_rest_and_a_later_one_does_not(floor: Floor) -> None:
    part = sweeper(floor)
    await floor.submit_one(delay=5)
    await part.run_once()
    assert not part.hear(Hint("timer", at=START + 6 * SECOND))
    assert not part.hear(Hint("ready"))
    assert part.hear(Hint("timer", at=START + 2 * SECOND))
    assert await part.run_once() == 2.0


async def test_a_lost_hint_costs_the_sweeper_one_slow_look(floor: Floor) -> None:
    part = Sweeper(floor.store, floor.clock, Gauges())
    part.own(list(floor.everywhere))
    await part.run_once()
    await floor.submit_one(delay=1)  # nobody tells it
    floor.clock.advance(LOOK_S)
    await part.run_once()
    assert len(await floor.ready()) == 1


async def test_jobs_too_late_to_start_expire_by_the_sweeper(floor: Floor) -> None:
    part = sweeper(floor)
    job = await floor.submit_one(start_by=3)
    assert await part.run_once() == 3.0
    floor.clock.advance(3)
    await part.run_once()
    assert (await floor.record(job)).reason == "expired"


async def test_a_backlog_is_swept_without_a_rest(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.sweep.sweeper.BATCH", 3)
    part = sweeper(floor)
    await floor.submit(10, delay=1)
    floor.clock.advance(1)
    rounds = 0
    while await part.run_once() == 0:
        rounds += 1
    assert rounds >= 3
    assert len(await floor.ready()) == 10


# --- ticker


async def put_rule(floor: Floor, name: str, **rule: Any) -> None:
    parsed = parse_rule(**({"cron": "* * * * *"} | rule))
    definition = json.encode(Definition(parsed, "tick", "{}"))
    await floor.put_schedule(name, definition=definition, next_at=first_time(parsed, floor.clock.now()))


async def test_i9_the_ticker_fires_each_occurrence_once_and_rests_until_the_next(floor: Floor) -> None:
    part = Ticker(floor.store, floor.clock, gauges := Gauges())
    await put_rule(floor, "s", overlap="allow")
    first = START // MINUTE * MINUTE + MINUTE
    floor.clock.jump_to(first - 5 * SECOND)
    assert await part.run_once() == 5.0
    assert floor.count("job") == 0
    for fired in (1, 2, 3):
        floor.clock.jump_to(first + (fired - 1) * MINUTE)
        assert await part.run_once() == 0  # there may be more
        assert await part.run_once() == 10.0  # a slow look, although the next one is a minute away
        assert await part.run_once() == 10.0
        assert floor.count("job") == gauges.fired == fired
    occurrences = {row[0] for row in floor.rows("select occurrence_at from occurrence")}
    assert occurrences == {first + n * MINUTE for n in range(3)}


async def test_i9_any_number_of_tickers_make_one_job_per_occurrence(floor: Floor) -> None:
    await put_rule(floor, "s", overlap="allow")
    parts = [Ticker(floor.store, floor.clock, Gauges()) for _ in range(4)]
    for _ in range(3):
        floor.clock.advance(60)
        for part in parts:
            part.hear(Hint("schedule"))
        await asyncio.gather(*(part.run_once() for part in parts))
    assert floor.count("job") == floor.count("occurrence") == 3


async def test_i9_nothing_at_or_before_the_watermark_fires_again_not_even_when_its_job_is_gone(floor: Floor) -> None:
    part = Ticker(floor.store, floor.clock, Gauges())
    await put_rule(floor, "s")
    floor.clock.advance(60)
    await part.run_once()
    ((job,),) = floor.rows("select job from occurrence")
    await floor.store.cancel_jobs([job])
    floor.clock.advance(1)
    assert await floor.prune(0) == 1
    record = await floor.schedule("s")
    await floor.store.put_schedules([structs.replace(record, next_at=floor.clock.now())])  # a look too early
    part.hear(Hint("schedule"))
    await part.run_once()
    assert floor.count("job") == floor.count("occurrence") == 0
    after = await floor.schedule("s")
    assert (after.runs, after.watermark_at) == (record.runs, record.watermark_at)


async def test_after_an_outage_the_ticker_catches_up_as_the_rule_says_and_records_the_rest(floor: Floor) -> None:
    await put_rule(floor, "s", catch_up="latest", overlap="allow")
    floor.clock.advance(3600)
    await Ticker(floor.store, floor.clock, Gauges()).run_once()
    missed = await floor.store.list_missed("default/s", 10)
    made = floor.count("job")
    assert made in (1, 2)  # the latest that was late, and one that is not late yet
    assert sum(entry.count or 0 for entry in missed) + made in (60, 61)
    assert {entry.reason for entry in missed} == {"catch_up"}


async def test_what_could_not_be_fired_is_fired_as_soon_as_the_store_is_back(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_rule(floor, "s")
    part = Ticker(floor.store, floor.clock, Gauges())
    await part.run_once()
    floor.clock.advance(60)

    async def fail(*_: Any) -> Any:
        raise StoreUnavailableError("no connection")

    for verb in ("due_schedules", "fire_schedules"):
        with monkeypatch.context() as broken:
            broken.setattr(floor.store, verb, fail)
            with pytest.raises(StoreUnavailableError):
                await part.run_once()
    await part.run_once()
    assert floor.count("job") == 1


async def test_schedules_that_cannot_be_sealed_here_hold_up_no_others(
    floor: Floor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mainspring.sweep.ticker.BATCH", 2)
    await floor.store.put_tenants([TenantRecord("sealed", Quota(), START)])
    assert await floor.store.seal_tenant("sealed", True)
    definition = json.encode(Definition(parse_rule(cron="* * * * *"), "tick", "{}", JobOptions(tenant="sealed")))
    for number in range(3):  # due before the others, and more than are read at a time
        await floor.put_schedule(f"sealed-{number}", definition=definition, next_at=START + number)
    part = Ticker(floor.store, floor.clock, gauges := Gauges())
    await put_rule(floor, "s", overlap="allow")
    for minute in range(1, 4):
        floor.clock.advance(60)
        while await part.run_once() == 0:
            pass
        assert gauges.fired == floor.count("job") == minute
    assert len(caplog.records) == 3  # one a minute, not one for each
    assert (await floor.schedule("sealed-0")).runs == 0  # still due, for a node with keys


async def test_a_schedule_made_while_the_ticker_looks_is_not_overlooked(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, due = Ticker(floor.store, floor.clock, Gauges()), floor.store.due_schedules

    async def due_and_told(limit: int) -> Any:
        found = await due(limit)
        await put_rule(floor, "s")
        part.hear(Hint("schedule"))
        return found

    with monkeypatch.context() as late:
        late.setattr(floor.store, "due_schedules", due_and_told)
        assert await part.run_once() == 0
    assert 0 < await part.run_once() <= 60


async def test_what_could_not_ripen_ripens_as_soon_as_the_store_is_back(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = sweeper(floor)
    await floor.submit_one(delay=1)
    await part.run_once()
    floor.clock.advance(1)

    async def fail(*_: Any) -> Any:
        raise StoreUnavailableError("no connection")

    with monkeypatch.context() as broken:
        broken.setattr(floor.store, "ripen_timers", fail)
        with pytest.raises(StoreUnavailableError):
            await part.run_once()
    await part.run_once()
    assert len(await floor.ready()) == 1


async def test_i8_jitter_delays_the_job_and_not_the_occurrence(floor: Floor) -> None:
    await put_rule(floor, "s", jitter="30s")
    floor.clock.advance(60)
    await Ticker(floor.store, floor.clock, Gauges()).run_once()
    ((due_at, occurrence_at),) = floor.rows(
        "select j.due_at, o.occurrence_at from job j join occurrence o on o.job = j.id"
    )
    assert 0 <= due_at - occurrence_at <= 30 * SECOND
    assert from_micros(occurrence_at).second == 0


# --- rescuer


async def test_i7_the_rescuer_takes_the_jobs_of_dead_nodes(floor: Floor) -> None:
    dead = await floor.new_node(b"dead")
    job = await floor.started(await floor.session(dead))
    floor.clock.advance(LEASE_S - 1)
    floor.store.renew_lease(floor.node.id, LEASE_S, lambda _: None)
    await floor.node.ownership.look()
    await floor.node.rescuer.run_once()
    assert await floor.state(job) == "assigned"
    floor.clock.advance(2)
    floor.node.ownership._monotonic = lambda: time.monotonic() + LEASE_S
    await floor.node.ownership.run_once()
    await floor.node.rescuer.run_once()
    assert await floor.state(job) == "pending"
    assert floor.node.gauges.rescued == 1


async def test_time_in_which_the_node_itself_stood_still_does_not_count_against_a_worker(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("mainspring.sweep.rescuer.time.monotonic", lambda: now[0])
    monkeypatch.setattr("mainspring.dispatch.desk.time.monotonic", lambda: now[0])
    part = floor.node.rescuer
    part._looked_s = now[0]
    worker = await floor.worker()
    job = await floor.submit_one()
    assert await worker.jobs() == [job]
    now[0] += 60.0  # the machine slept
    await part.run_once()
    assert await floor.state(job) == "assigned"
    for _ in range(11):  # and now the worker is silent while we listen
        now[0] += 1.0
        await part.run_once()
    assert await floor.state(job) == "pending"


# --- pruner


async def test_the_pruner_keeps_each_state_for_its_time(floor: Floor) -> None:
    part = Pruner(floor.store, floor.clock, gauges := Gauges(), keep_s=100, keep_failed_s=1000)
    session = await floor.session()
    done, failed = await floor.started(session), await floor.started(session)
    await floor.settle(session, done, 1, "completed")
    await floor.fail(session, failed, 1)
    cancelled = await floor.submit_one()
    await floor.store.cancel_jobs([cancelled])
    floor.clock.advance(100)
    await part.run_once()
    assert floor.count("job") == 3
    floor.clock.advance(1)
    await part.run_once()
    assert [row[0] for row in floor.rows("select id from job")] == [failed]
    floor.clock.advance(1000)
    await part.run_once()
    assert floor.count("job") == 0
    assert gauges.pruned == 3


async def test_a_large_backlog_is_pruned_in_growing_batches_without_a_rest(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.sweep.pruner.LEAST", 1)
    monkeypatch.setattr("mainspring.sweep.pruner.MOST", 4)
    part = Pruner(floor.store, floor.clock, Gauges(), keep_s=1, keep_failed_s=1)
    await floor.store.cancel_jobs(await floor.submit(13))
    floor.clock.advance(10)
    left = []
    for rest_s in (0, 0, 0, 0, SOON_S, SOON_S):
        assert await part.run_once() == rest_s
        left.append(floor.count("job"))
    assert left == [12, 10, 6, 2, 0, 0]


async def test_the_pruner_looks_often_where_little_is_kept(floor: Floor) -> None:
    assert await Pruner(floor.store, floor.clock, Gauges(), keep_s=20, keep_failed_s=1000).run_once() == 2
    assert await Pruner(floor.store, floor.clock, Gauges(), keep_s=1e6, keep_failed_s=1e6).run_once() == PRUNE_LOOK_S


# --- ownership


async def test_a_node_that_joins_gets_its_share_and_one_that_dies_leaves_it(floor: Floor) -> None:
    assert floor.node.ownership.partitions == list(floor.everywhere)
    other = await floor.join("second")
    for node in (floor.node, other, floor.node, other):
        await node.ownership.look()
    shares = [set(node.ownership.partitions) for node in (floor.node, other)]
    assert shares[0] | shares[1] == set(floor.everywhere)
    assert shares[0] & shares[1] == set()
    floor.clock.advance(LEASE_S + 1)
    floor.store.renew_lease(floor.node.id, LEASE_S, lambda _: None)
    await floor.submit_one()  # the renewal before it is done
    await floor.node.ownership.look()
    assert len(await floor.store.list_nodes()) == 2, "a lease that ran out is not enough: a clock may have jumped"
    floor.node.ownership._monotonic = lambda: time.monotonic() + LEASE_S
    await floor.node.ownership.look()
    assert floor.node.ownership.partitions == list(floor.everywhere)
    assert [node.id for node in await floor.store.list_nodes()] == [floor.node.id]


async def test_a_heartbeat_renews_and_says_once_that_the_node_was_ended(floor: Floor) -> None:
    lost: list[None] = []
    renewed: list[None] = []
    heartbeat = Heartbeat(floor.store, floor.node.id, lambda: lost.append(None), lambda: renewed.append(None))
    floor.clock.advance(LEASE_S - 1)
    heartbeat.beat()
    await floor.submit_one()  # the renewal before it is done
    assert (len(renewed), lost) == (1, [])
    assert (await floor.store.list_nodes())[0].lease_until == floor.clock.now() + int(LEASE_S * SECOND)
    await floor.store.end_nodes({floor.node.id: None})
    heartbeat.beat()
    heartbeat.beat()
    await floor.submit_one()
    assert (len(renewed), lost) == (1, [None])


async def test_a_heartbeat_thread_ends_when_it_is_stopped(floor: Floor) -> None:
    heartbeat = Heartbeat(floor.store, floor.node.id, lambda: None)
    heartbeat.start()
    heartbeat.stop()
    assert not any(thread.name == "mainspring-heartbeat" for thread in threading.enumerate())
