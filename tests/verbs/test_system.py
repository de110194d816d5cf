"""Statistics, history, declarations."""

import math
import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import App
from mainspring.core.job import Limit
from mainspring.core.partition import parse_id
from mainspring.core.timer import SECOND, from_micros, to_micros
from mainspring.errors import InvalidError
from mainspring.store.contract import QueueRecord, Tally
from mainspring.store.service import Quota, TenantRecord
from mainspring.verbs import documents as d
from mainspring.verbs import usage
from mainspring.verbs.declarations import declarations_of, read_declarations
from mainspring.verbs.history import percentile_s, periods_of
from mainspring.wire import WorkerInfo
from verbs.site import Site


async def test_statistics_are_a_tenants_own(site: Site) -> None:
    await site.end(parse_id(await site.send()))
    await site.send()
    await site.send(tenant="other")
    info = WorkerInfo(name="w", slots=5, kinds=frozenset({"send"}))
    await site.store.insert_session(b"\1" * 16, await site.new_node(b"n" * 16), "w", info)
    rule = {"cron": "0 9 * * *"}
    await site.verbs().schedules.create(d.NewSchedule(name="s", kind="send", rule=rule))
    found = await site.verbs().system.statistics()
    assert (found.jobs["pending"], found.jobs["completed"]) == (1, 1)
    assert (found.queues, found.schedules, found.slots) == (2, 1, 5)
    assert found.ended_per_s == round(1 / 60, 3)
    assert (await site.verbs("other").system.statistics()).jobs["pending"] == 1


async def test_version(site: Site) -> None:
    version = await site.verbs().system.version()
    assert version.store in ("sqlite", "postgres")
    assert (version.protocol, version.version[0]) == (1, "0")


async def test_history_counts_by_kind_and_period(site: Site) -> None:
    since = from_micros(site.clock.now())
    session = await site.session()
    for seconds in (1, 2, 4, 8):
        job = await site.started(session)
        site.clock.advance(seconds)
        await site.settle(session, job, 1, "completed" if seconds < 8 else "failed", reason=None)
    site.clock.advance(45)
    waited = await site.submit_one()
    site.clock.advance(5)
    await site.assign(session, [waited])
    site.clock.advance(1)
    await site.settle(session, waited, 1, "completed")
    await site.send(tenant="other")
    until = from_micros(site.clock.now()) + timedelta(seconds=1)
    history = await site.verbs().system.history(since, until, 60)
    first, second = history.periods
    assert (first.kind, first.from_at, first.ended) == ("work", since, {"completed": 3, "failed": 1})
    assert first.mean_run_s == 15 / 4
    assert first.p50_s == pytest.approx(2, rel=0.1)
    assert first.p99_s == pytest.approx(8, rel=0.1)
    assert (second.from_at, second.mean_wait_s, second.mean_run_s) == (since + timedelta(seconds=60), 5, 1)
    assert (await site.verbs().system.history(since, until, 60, "send")).periods == []
    assert (await site.verbs("other").system.history(since, until, 60)).periods == []


async def test_a_history_that_makes_no_sense(on_sqlite: Site) -> None:
    now = from_micros(on_sqlite.clock.now())
    history = on_sqlite.verbs().system.history
    for until, step_s, field in (
        (now, 60.0, "until"),
        (now + timedelta(days=1), 60.0, "step_s"),
        (now + timedelta(days=1), 0.0, "step_s"),
        (now + timedelta(days=1), math.nan, "step_s"),
        (now + timedelta(days=1), math.inf, "step_s"),
    ):
        with pytest.raises(InvalidError) as caught:
            await history(now, until, step_s)
        assert caught.value.field == field


async def test_usage_is_summed_by_what_is_asked_for(site: Site) -> None:
    since = from_micros(site.clock.now())
    session = await site.session()
    for client, kind, cpu in (("x", "a", 1), ("x", "b", 2), ("y", "a", 4), (None, "a", 8)):
        job = await site.started(session, client=client, kind=kind)
        await site.settle(session, job, 1, "completed", usage=b'{"cpu_s":%d.0}' % cpu)
    site.clock.advance(1)
    system = site.verbs().system
    both = await system.usage(since)
    assert [(each.client, each.kind, each.cpu_s) for each in both.sums] == [
        (None, "a", 8.0), ("y", "a", 4.0), ("x", "b", 2.0), ("x", "a", 1.0)
    ]  # fmt: skip
    assert (both.total.cpu_s, both.total.jobs, both.more) == (15.0, 4, 0)
    assert both.until == from_micros(site.clock.now())
    kinds = (await system.usage(since, by="kind")).sums
    assert [(each.client, each.kind, each.cpu_s) for each in kinds] == [(None, "a", 13.0), (None, "b", 2.0)]
    clients = (await system.usage(since, by="client")).sums
    assert [(each.client, each.kind, each.cpu_s) for each in clients] == [
        (None, None, 8.0),
        ("y", None, 4.0),
        ("x", None, 3.0),
    ]
    assert (await site.verbs("other").system.usage(since)).sums == []


async def test_usage_of_very_many_says_how_far_it_got(on_sqlite: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site = on_sqlite
    monkeypatch.setattr(usage, "MAX_JOBS", 4)
    monkeypatch.setattr(usage, "MAX_SUMS", 1)
    first = site.clock.now()
    await site.store.put_tenants([TenantRecord("other", Quota(), first)])
    session = await site.session()
    for number in range(10):
        job = await site.started(session, tenant=("default", "other")[number % 2])
        site.clock.advance(1)
        await site.settle(session, job, 1, "completed", usage=b'{"cpu_s":1.0}')
    site.clock.advance(1)
    until, jobs, reports = site.clock.now(), 0, 0
    while first < until:
        report = await site.verbs(None).system.usage(from_micros(first), from_micros(until))
        reached = to_micros("until", report.until)
        assert first < reached <= until
        first, jobs, reports = reached, jobs + report.total.jobs, reports + 1
        assert len(report.sums) + report.more == 2 or first == until
        assert len(report.sums) <= 1
    assert jobs == 10
    assert reports > 1


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentiles_are_within_a_tenth(micros: list[int], share: float) -> None:
    tallies = [Tally("k", "completed", 0, math.floor(4 * math.log2(run)), 1, 0, run) for run in micros]
    random.Random(1).shuffle(tallies)
    exact = sorted(micros)[math.ceil(share * len(micros)) - 1] / SECOND
    assert percentile_s(tallies, share) == pytest.approx(exact, rel=0.1)


def test_what_did_not_run_counts_as_ended_only() -> None:
    (period,) = periods_of([Tally("k", "cancelled", 0, -1, 5, 0, 0)], None)
    assert (period.ended, period.p50_s, period.mean_run_s) == ({"cancelled": 5}, 0.0, 0.0)


# --- declarations


def application() -> App:
    app = App()
    app.queue("mail", concurrency=5, rate="100/m")

    @app.schedule("0 9 * * *", tz="Europe/Berlin", jitter="1m", arguments={"to": "x"}, options={"priority": 9})
    @app.job(queue="mail", retries=7, backoff="5s", concurrency=3, cpu=2, unique="1h")
    async def report(to: str) -> None: ...

    @app.job()
    async def plain() -> None: ...

    return app


def test_what_code_declares_goes_over_a_wire_unchanged() -> None:
    declared = application().declared
    kinds, queues, schedules = read_declarations(declarations_of(*declared), None)
    assert (kinds, queues, schedules) == tuple(map(list, declared))


async def test_declarations_are_stored_and_what_is_gone_is_named(site: Site) -> None:
    system = site.verbs().system
    assert await system.declare(declarations_of(*application().declared)) == []
    report = await site.verbs().schedules.read("report")
    assert (report.origin, report.rule.tz) == ("code", "Europe/Berlin")
    assert QueueRecord("default", "mail", False, Limit(5, 100 / 60, 100)) in await site.store.list_queues()
    job = (await site.local().jobs.draft(d.SubmitRequest(kind="report"))).options
    assert (job.queue, job.retries) == ("mail", 7)
    assert await system.declare(d.Declarations()) == ["report"]
    await system.declare(declarations_of(*application().declared))
    assert await site.audited() == [("declare", "4 changed")]  # a repeated one changes nothing


async def test_i16_declarations_are_for_the_tenant_that_asks(on_sqlite: Site) -> None:
    system = on_sqlite.verbs("acme").system
    assert await system.declare(declarations_of(*application().declared)) == []
    assert [schedule.tenant for schedule in await on_sqlite.verbs(None).schedules.list()] == ["acme"]
    assert await on_sqlite.verbs("other").system.declare(d.Declarations()) == []
    theirs = d.QueueDeclaration(name="q", limit=d.LimitDocument(concurrency=1, rate_per_s=None, burst=None), tenant="b")
    with pytest.raises(InvalidError, match="tenant"):
        await system.declare(d.Declarations(queues=[theirs]))


BAD = {
    "name": d.Declarations(kinds=[d.KindDeclaration(name="")]),
    "key": d.Declarations(kinds=[d.KindDeclaration(name="k", options={"key": "x"})]),
    "colour": d.Declarations(kinds=[d.KindDeclaration(name="k", options={"colour": "x"})]),
    "concurrency": d.Declarations(
        queues=[d.QueueDeclaration(name="q", limit=d.LimitDocument(concurrency=0, rate_per_s=None, burst=None))]
    ),
    "rate_per_s": d.Declarations(
        queues=[d.QueueDeclaration(name="q", limit=d.LimitDocument(concurrency=None, rate_per_s=math.nan, burst=1))]
    ),
    "cron": d.Declarations(schedules=[d.NewSchedule(name="s", kind="k", rule={})]),
    "declarations": d.Declarations(kinds=[d.KindDeclaration(name="k")] * 10_001),
}


@pytest.mark.parametrize("field", BAD)
def test_bad_declarations_are_refused_by_name(field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_declarations(BAD[field], "default")
    assert caught.value.field in (field, "kind")
