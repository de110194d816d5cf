"""Faults at random, from a printed seed: then heal, drain and check.

`pytest tests/faults --soak` does it for ten minutes each; `--soak-seed` repeats the faults of a run (their order and lengths;
what the processes do between them is theirs).
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faults.checks import check_every_second
from faults.harness import Child, Site
from faults.places import Schema
from faults.soaking import LEASE_S, Soak, Submitter, drain_and_check
from postgres.proxy import Proxy
from postgres.server import Server

LONG_S = 600.0
WORKERS, NODES, SCHEDULES = 4, 3, 50
Tell = Callable[[str], None]


class Plan:
    """How long, and from which seed."""

    def __init__(self, request: pytest.FixtureRequest, short_s: float) -> None:
        def option(name: str) -> Any:
            """None where this folder was not named on the command line, so that pytest read its options too late."""
            return request.config.getoption(name, default=None)

        self.long = bool(option("--soak"))
        self.seconds: float = option("--soak-seconds") or (LONG_S if self.long else short_s)
        seed = option("--soak-seed")
        self.seed: int = random.randrange(1 << 32) if seed is None else seed
        print(f"--soak-seed {self.seed} --soak-seconds {self.seconds:g}")


@pytest.fixture
def tell(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Tell:
    """A long run shows how far it is."""

    def show(line: str) -> None:
        if request.config.getoption("--soak", default=None):
            with capsys.disabled():
                print(f"soak: {line}", flush=True)

    return show


def _soak(site: Site, soak: Soak, plan: Plan, tell: Tell) -> None:
    submitter = Submitter(site, plan.seed)
    submitter.start()
    tell(f"seed {plan.seed}, {plan.seconds:g} s")
    soak.suffer(plan.seconds, tell)
    soak.heal()
    submitter.stop()
    tell(f"{len(submitter.acknowledged)} jobs acknowledged; waiting until all have ended")
    found = drain_and_check(site, soak, submitter.acknowledged)
    faults = Counter(fault.kind for fault in soak.faults)
    tell(f"{len(submitter.acknowledged)} jobs, {dict(faults)}, {found.ended}")
    tell(
        f"lost 0, given up after three losses {found.given_up}, repeated {found.repeats}, "
        f"unexplained {len(found.unexplained)}"
    )
    unexplained = found.unexplained
    assert not unexplained, f"{len(unexplained)} runs that no fault explains, such as {unexplained[:3]}"
    assert set(found.ended) <= {("completed", None), ("failed", "lost")}
    assert len(submitter.acknowledged) > 10 * plan.seconds


def test_random_faults(site: Site, request: pytest.FixtureRequest, tell: Tell) -> None:
    """Three processes on one store."""
    plan = Plan(request, 15.0)
    start = partial(site.worker, lease_s=LEASE_S, slots=20, grace_s=0.2, schedules=1)
    _soak(site, Soak(site, plan.seed, [start] * 3, {}), plan, tell)
    tell(f"{check_every_second(site, 'default/tick-0')} occurrences, none missed without a record")


def test_a_cluster_on_postgres(
    durable_postgres: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    tell: Tell,
) -> None:
    """Nodes and workers behind a proxy, on a server that crashes and restarts."""
    plan = Plan(request, 60.0)
    with Proxy(durable_postgres.url) as proxy:
        site = Site(tmp_path, Schema(durable_postgres.url, proxy.url))
        monkeypatch.setenv("FAULTS_LOG", str(site.log))

        def hold(seconds: float) -> None:
            proxy.hold()
            time.sleep(seconds)
            proxy.release()

        shared: dict[str, Callable[[float], object]] = {
            "cut": lambda _: proxy.cut(),
            "hold": hold,
            "restart": lambda _: durable_postgres.restart("fast"),
            "crash": lambda _: durable_postgres.restart("immediate"),
        }
        worker = partial(site.worker, lease_s=LEASE_S, slots=20, grace_s=0.2, schedules=SCHEDULES)
        try:
            starts = [worker] * WORKERS + [partial(_node, site)] * NODES
            _soak(site, Soak(site, plan.seed, starts, shared), plan, tell)
            fired = sum(check_every_second(site, f"default/tick-{n}") for n in range(SCHEDULES))
            tell(f"{SCHEDULES} schedules, {fired} occurrences, none missed without a record")
        finally:
            site.close()


def _node(site: Site) -> Child:
    child = site.start("child_node", lease_s=LEASE_S, schedules=SCHEDULES)
    child.hear("ready")
    return child
