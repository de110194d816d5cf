"""Schedules that no code declares, as verbs; what every schedule does is in tests/unit/app/test_schedules.py."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec import json, structs

from mainspring.core.partition import parse_id
from mainspring.core.timer import from_micros
from mainspring.errors import ConflictError, InvalidError, NotFoundError
from mainspring.verbs import documents as d
from verbs.site import Site

DAILY = d.NewSchedule(
    name="daily", kind="send", rule={"cron": "0 9 * * *", "tz": "Europe/Berlin"}, arguments={"to": "x"}
)


async def test_a_schedule_from_its_making_to_its_end(site: Site) -> None:
    schedules = site.verbs().schedules
    made = await schedules.create(DAILY)
    assert (made.name, made.kind, made.rule.tz, made.origin, bytes(made.arguments)) == (
        "daily",
        "send",
        "Europe/Berlin",
        "user",
        b'{"to":"x"}',
    )
    assert [made] == list(await schedules.list())
    assert (await schedules.next("daily", 2))[0] == made.next_at
    await schedules.pause("daily")
    assert (await schedules.read("daily")).next_at is None
    await schedules.resume("daily")
    job = await site.verbs().jobs.read((await schedules.trigger("daily")).id)
    assert (job.schedule, job.queue) == ("default/daily", "mail")
    with pytest.raises(ConflictError, match="overlap is 'skip'"):
        await schedules.trigger("daily")
    now = from_micros(site.clock.now())
    assert await schedules.backfill("daily", now - timedelta(days=3), now) == 3
    assert len((await site.verbs().jobs.list(d.JobQuery(schedule="daily"))).jobs) == 4
    assert list(await schedules.missed("daily")) == []
    await schedules.delete("daily")
    assert list(await schedules.list()) == []
    verbs = ("create", "pause", "resume", "trigger", "backfill", "delete")
    assert await site.audited() == [(f"{verb}_schedule", "daily") for verb in verbs]


async def test_a_name_is_given_once_in_a_tenant(site: Site) -> None:
    await site.verbs().schedules.create(DAILY)
    with pytest.raises(ConflictError, match="exists already"):
        await site.verbs().schedules.create(DAILY)
    made = await site.verbs("acme").schedules.create(DAILY)
    assert made.tenant == "acme"
    assert [s.tenant for s in await site.verbs(None).schedules.list()] == ["acme", "default"]
    job = await site.verbs("acme").schedules.trigger("daily")
    assert (await site.verbs("acme").jobs.read(job.id)).tenant == "acme"


async def test_i2_a_trigger_with_the_same_key_is_the_same_job_whatever_became_of_it(site: Site) -> None:
    schedules = site.verbs().schedules
    await schedules.create(DAILY)
    made = await schedules.trigger("daily", "Frühling 7")
    assert not made.existed
    again = d.Submitted(id=made.id, existed=True)
    assert await schedules.trigger("daily", "Frühling 7") == again  # although it has not ended, and overlap is 'skip'
    with pytest.raises(ConflictError, match="overlap is 'skip'"):
        await schedules.trigger("daily", "another")
    await site.end(parse_id(made.id))
    assert await schedules.trigger("daily", "Frühling 7") == again
    assert (await schedules.trigger("daily", "another")).id != made.id
    assert (await site.audited()).count(("trigger_schedule", "daily")) == 2


async def test_i2_of_many_triggers_with_one_key_at_once_one_makes_the_job(site: Site) -> None:
    await site.verbs().schedules.create(structs.replace(DAILY, rule=DAILY.rule | {"overlap": "cancel_running"}))
    answers = await asyncio.gather(*(site.verbs().schedules.trigger("daily", key="k") for _ in range(8)))
    assert len({answer.id for answer in answers}) == 1
    assert sorted(answer.existed for answer in answers) == [False] + [True] * 7
    assert (await site.verbs().jobs.read(answers[0].id)).state == "pending"
    assert site.count("job") == 1


async def test_i2_a_triggers_key_is_its_schedules_own(site: Site) -> None:
    submitted = await site.send(key="k")
    jobs = {submitted}
    for tenant, name in (("default", "daily"), ("default", "weekly"), ("acme", "daily")):
        schedules = site.verbs(tenant).schedules
        await schedules.create(structs.replace(DAILY, name=name))
        jobs.add((await schedules.trigger(name, "k")).id)
    assert len(jobs) == 4


async def test_a_key_is_remembered_as_long_as_the_job_and_at_least_a_day(site: Site) -> None:
    schedules = site.verbs().schedules
    await schedules.create(DAILY)
    made = await schedules.trigger("daily", "k")
    await site.end(parse_id(made.id))
    site.clock.advance(24 * 3600 - 1)
    assert (await site.prune(0), (await schedules.trigger("daily", "k")).id) == (0, made.id)
    site.clock.advance(2)
    assert (await site.prune(0), (await schedules.trigger("daily", "k")).existed) == (1, False)


@pytest.mark.parametrize("key", ["", "a\nb", "k" * 201])
async def test_a_key_that_is_wrong_is_refused_by_name(site: Site, key: str) -> None:
    await site.verbs().schedules.create(DAILY)
    with pytest.raises(InvalidError) as caught:
        await site.verbs().schedules.trigger("daily", key)
    assert (caught.value.field, site.count("job")) == ("key", 0)


async def test_i16_another_tenants_schedule_does_not_exist(on_sqlite: Site) -> None:
    await on_sqlite.verbs("acme").schedules.create(DAILY)
    schedules = on_sqlite.verbs().schedules
    now = from_micros(on_sqlite.clock.now())
    for ask in (
        schedules.read("daily"),
        schedules.next("daily"),
        schedules.pause("daily"),
        schedules.resume("daily"),
        schedules.trigger("daily"),
        schedules.backfill("daily", now - timedelta(days=1), now),
        schedules.missed("daily"),
        schedules.delete("daily"),
    ):
        with pytest.raises(NotFoundError, match="there is none yet"):
            await ask
    assert list(await schedules.list()) == []


BAD: list[tuple[dict[str, Any], str]] = [
    ({"name": "a\nb"}, "name"),
    ({"name": ""}, "name"),
    ({"rule": {}}, "cron"),
    ({"rule": {"cron": "* * *"}}, "expression"),
    ({"rule": {"cron": 5}}, "expression"),
    ({"rule": {"cron": "0 9 * * *", "tz": "../etc/passwd"}}, "tz"),
    ({"rule": {"cron": "0 9 * * *", "tz": 5}}, "tz"),
    ({"rule": {"cron": "0 9 * * *", "every": 1}}, "every"),
    ({"rule": {"cron": "0 9 * * *", "calendar": {"a": 1}}}, "calendar"),
    ({"rule": {"cron": "0 9 * * *", "max_runs": True}}, "max_runs"),
    ({"rule": {"cron": "0 9 * * *", "overlap": []}}, "overlap"),
    ({"rule": {"cron": "0 9 * * *", "start_at": 5}}, "start_at"),
    ({"options": {"key": "k"}}, "key"),
    ({"options": {"delay": "1h"}}, "delay/at"),
    ({"options": {"tenant": "other"}}, "tenant"),
    ({"arguments": {"a": 2**63}}, "arguments"),
]


@pytest.mark.parametrize(("wrong", "field"), BAD)
async def test_a_schedule_that_is_wrong_is_refused_by_name(on_sqlite: Site, wrong: dict[str, Any], field: str) -> None:
    said: dict[str, Any] = {"name": "n", "kind": "send", "rule": {"cron": "0 9 * * *"}} | wrong
    with pytest.raises(InvalidError) as caught:
        await on_sqlite.verbs().schedules.create(d.NewSchedule(**said))
    assert caught.value.field == field
    assert list(await on_sqlite.verbs().schedules.list()) == []


async def test_an_unknown_kind_and_documents_as_json(on_sqlite: Site) -> None:
    with pytest.raises(InvalidError, match="knows no kind"):
        await on_sqlite.verbs().schedules.create(d.NewSchedule(name="n", kind="no", rule={"cron": "0 9 * * *"}))
    shown = json.decode(json.encode(await on_sqlite.verbs().schedules.create(DAILY)))
    assert (shown["rule"]["cron"], shown["rule"]["tz"]) == ("0 9 * * *", "Europe/Berlin")
    assert shown["arguments"] == {"to": "x"}
