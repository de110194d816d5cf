"""What a server says of something is what its store says of it: the same documents, and the same refusals in the same words."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from contract.scene import START
from mainspring.core.timer import from_micros
from mainspring.errors import MainspringError
from mainspring.verbs import documents as d
from mainspring.verbs.faces import Verbs
from service.places import Place

NOW = from_micros(START)
NOBODY = "00000000-0001-7002-8000-000000000003"
Call = Callable[[Verbs], Awaitable[Any]]


async def prepare(place: Place) -> list[str]:
    """Some of everything."""
    waiting, done, failed = [await place.submit(tags=[word]) for word in ("w", "d", "f")]
    await place.complete(done, b'{"a":[1,2.5,"\xc3\xbc",null]}')
    await place.fail(failed)
    local = place.local()
    rule = {"cron": "*/5 * * * *", "tz": "Europe/Berlin", "jitter": "10s", "start_at": "2030-01-01T00:00:00Z"}
    await local.schedules.create(d.NewSchedule(name="often", kind="send", rule=rule))
    await local.templates.put("welcome", d.TemplateDefinition(kind="send", arguments={"to": 1}))
    await local.keys.create(d.NewKey(name="k", role="viewer"))
    await local.queues.pause("mail")
    await place.local(None).tenants.create(d.NewTenant(name="acme", quota=d.Quota(submits_per_s=1.5)))
    return [waiting, done, failed]


READS: dict[str, Call] = {
    "jobs": lambda verbs: verbs.jobs.list(d.JobQuery(), limit=2),
    "ended jobs": lambda verbs: verbs.jobs.list(d.JobQuery(state="failed")),
    "schedules": lambda verbs: verbs.schedules.list(),
    "schedule": lambda verbs: verbs.schedules.read("often"),
    "times": lambda verbs: verbs.schedules.next("often", 3),
    "missed": lambda verbs: verbs.schedules.missed("often"),
    "templates": lambda verbs: verbs.templates.list(),
    "versions": lambda verbs: verbs.templates.versions("welcome"),
    "export": lambda verbs: verbs.templates.export(),
    "queues": lambda verbs: verbs.queues.list(),
    "workers": lambda verbs: verbs.workers.list(),
    "nodes": lambda verbs: verbs.nodes.list(),
    "version": lambda verbs: verbs.system.version(),
    "statistics": lambda verbs: verbs.system.statistics(),
    "history": lambda verbs: verbs.system.history(NOW - timedelta(hours=1), NOW + timedelta(hours=1), 60.0),
    "usage": lambda verbs: verbs.system.usage(NOW - timedelta(hours=1), NOW + timedelta(hours=1)),
    "keys": lambda verbs: verbs.keys.list(),
    "tenants": lambda verbs: verbs.tenants.list(),
    "audit": lambda verbs: verbs.audit.list(),
    "verify": lambda verbs: verbs.audit.verify(),
}


async def test_documents(server: Place) -> None:
    jobs = await prepare(server)
    calls = READS | {f"job {place}": lambda verbs, job=job: verbs.jobs.read(job) for place, job in enumerate(jobs)}
    calls |= {f"explain {place}": lambda verbs, job=job: verbs.jobs.explain(job) for place, job in enumerate(jobs)}
    for name, call in calls.items():
        said, meant = await call(server.verbs()), await call(server.local())
        assert said == meant, name


REFUSED: dict[str, Call] = {
    "no job": lambda verbs: verbs.jobs.read(NOBODY),
    "no id": lambda verbs: verbs.jobs.cancel("x"),
    "no state": lambda verbs: verbs.jobs.list(d.JobQuery(state="done")),
    "no page": lambda verbs: verbs.jobs.list(d.JobQuery(), limit=5000),
    "no cursor": lambda verbs: verbs.jobs.list(d.JobQuery(), after="abc"),
    "no change": lambda verbs: verbs.jobs.update(NOBODY, d.JobChange(priority=1)),
    "both times": lambda verbs: verbs.jobs.retry(NOBODY, d.JobChange(at=NOW, delay="1h")),
    "no clone": lambda verbs: verbs.jobs.clone(NOBODY, [d.Variation()]),
    "bulk without": lambda verbs: verbs.jobs.bulk(d.BulkRequest(action="reprioritise", filter=d.JobQuery())),
    "no schedule": lambda verbs: verbs.schedules.read("x"),
    "no rule": lambda verbs: verbs.schedules.create(d.NewSchedule(name="x", kind="send", rule={"cron": "61 * * * *"})),
    "no part": lambda verbs: verbs.schedules.create(d.NewSchedule(name="x", kind="send", rule={"corn": "* * * * *"})),
    "no kind": lambda verbs: verbs.schedules.create(d.NewSchedule(name="x", kind="x", rule={"cron": "* * * * *"})),
    "no name": lambda verbs: verbs.schedules.create(d.NewSchedule(name="", kind="send", rule={"cron": "* * * * *"})),
    "again": lambda verbs: verbs.schedules.create(d.NewSchedule(name="often", kind="send", rule={"cron": "* * * * *"})),
    "no template": lambda verbs: verbs.templates.read("x"),
    "no version": lambda verbs: verbs.templates.rollback("welcome", 9),
    "no hole": lambda verbs: verbs.templates.submit("welcome", d.TemplateSubmit(values={"x": 1})),
    "no queue": lambda verbs: verbs.queues.pause("x"),
    "no node": lambda verbs: verbs.nodes.drain(["x"]),
    "no worker": lambda verbs: verbs.workers.remove("x"),
    "no role": lambda verbs: verbs.keys.create(d.NewKey(name="x", role="x")),
    "no key": lambda verbs: verbs.keys.revoke("x"),
    "no tenant": lambda verbs: verbs.tenants.erase("x"),
    "tenant again": lambda verbs: verbs.tenants.create(d.NewTenant(name="acme")),
    "no time": lambda verbs: verbs.system.usage(NOW, NOW),
    "no period": lambda verbs: verbs.system.history(NOW, NOW + timedelta(days=300), 1.0),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refusals(server: Place, name: str) -> None:
    await prepare(server)
    with pytest.raises(MainspringError) as meant:
        await REFUSED[name](server.local())
    with pytest.raises(MainspringError) as said:
        await REFUSED[name](server.verbs())
    assert issubclass(
        meant.type, said.type
    )  # of a wrong cron expression a document says no more than that it is invalid
    assert said.type is not MainspringError
    assert getattr(said.value, "field", None) == getattr(meant.value, "field", None)
    assert str(said.value) == str(meant.value)
