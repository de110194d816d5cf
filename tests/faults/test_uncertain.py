"""Every third write takes place and then says that it is not known whether it did, as after a connection broke during a commit and
the database has not come back in time. Nothing is lost, nothing runs twice, and everything ends."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from faults import crash
from faults.checks import check_effects, check_occurrences, check_tables
from faults.harness import PATIENCE_S, Site
from faults.load import Load
from faults.scene import declare_ticks
from mainspring.core.timer import SECOND
from mainspring.errors import StoreUncertainError
from mainspring.store.contract import Store

BATCHES = 15


def _forget_answers(store: Store, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each verb was called from now on. Every third answer gets lost, beginning with the second."""
    calls: Counter[str] = Counter()

    def forgetful(verb: str) -> Any:
        real = getattr(store, verb)

        async def write(*args: Any, **kwargs: Any) -> Any:
            answer = await real(*args, **kwargs)
            calls[verb] += 1
            if calls[verb] % 3 == 2:
                raise StoreUncertainError("it is not known whether it was written")
            return answer

        return write

    for verb in crash.writing_verbs("sqlite"):
        if verb != "renew_lease":
            monkeypatch.setattr(store, verb, forgetful(verb))
    return calls


async def test_every_third_answer_gets_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = site.jobs()
    declare_ticks(jobs, 3)
    acks = site.folder / "acks"
    async with jobs.app as app:
        ready = asyncio.Event()
        run = asyncio.create_task(app.run(signals=False, grace=5, slots=30, ready=ready.set))
        await ready.wait()
        load = Load(jobs, str(acks), seed=3, most=60)
        with monkeypatch.context() as broken:
            calls = _forget_answers(app.store, broken)
            for _ in range(BATCHES):
                await load.submit()
                await asyncio.sleep(0.2)
        async with asyncio.timeout(PATIENCE_S):
            while site.value("select count(*) from job where finished_at is null") > 0:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        app.stop()
        await run
    flow = ("insert_jobs", "assign_jobs", "settle_attempts", "fire_schedules", "ripen_timers")
    assert min(calls[verb] for verb in flow) >= 2
    tally = check_effects(site, acks.read_text().split())
    assert (tally.repeats, tally.unexplained) == (site.value("select sum(failures) from job"), 0)
    assert site.value("select sum(losses) from job") == 0
    assert all(check_occurrences(site, f"default/tick-{number}", SECOND) >= 1 for number in range(3))
    check_tables(site)
