"""Faults at random, from a printed seed; then heal, drain and check.

`make soak` does it for ten minutes; `--soak-seed` repeats the faults of a run (what the processes do between them is theirs).
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from faults.checks import check_effects, check_occurrences, check_tables
from faults.conftest import MakeSite
from faults.explaining import explain
from faults.harness import ON_SQLITE, Site
from faults.places import Schema
from faults.soaking import Shared, Soak, Tell, drained
from mainspring.core.partition import format_id
from mainspring.core.timer import SECOND
from postgres.proxy import Proxy
from postgres.server import Server

LONG_S = 600.0
WORKERS, NODES, SUBMITTERS = 4, 3, 2
PAUSE_S = 0.4  # of a submitter between two batches: well over 10,000 jobs a minute, and few left to do when everything is healed
SCHEDULES, EVERY_S = 50, 5


class Plan:
    """How long, and from which seed."""

    def __init__(self, request: pytest.FixtureRequest, short_s: float) -> None:
        def option(name: str) -> Any:
            """None where this folder was not named on the command line, so that pytest read its options too late."""
            return request.config.getoption(f"--{name}", default=None) or os.environ.get(name.replace("-", "_").upper())

        self.seconds = float(option("soak-seconds") or (LONG_S if option("soak") else short_s))
        self.seed = int(option("soak-seed") or random.randrange(1, 1 << 32))
        print(f"--soak-seed {self.seed} --soak-seconds {self.seconds:g}")


@pytest.fixture
def tell(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Tell:
    """A long run shows how far it is."""

    def show(line: str) -> None:
        print(line)
        if request.config.getoption("--soak", default=None):
            with capsys.disabled():
                print(f"soak: {line}", flush=True)

    return show


def _soak(site: Site, soak: Soak, plan: Plan, lease_s: float, tell: Tell) -> None:
    tell(f"seed {plan.seed}, {plan.seconds:g} s")
    loads = [site.load(f"load-{number}", seed=plan.seed + number, pause_s=PAUSE_S) for number in range(SUBMITTERS)]
    soak.suffer(plan.seconds, tell)
    soak.heal()
    done = [load.stop() for load in loads]
    acknowledged = [id_ for load in loads for id_ in load.acknowledged]
    refused, uncertain = sum(each.refused for each in done), sum(each.uncertain for each in done)
    tell(f"healed; acknowledged {len(acknowledged)}, refused {refused}, not known {uncertain}; now all must end")
    drained(site)

    ended = Counter(site.rows("select state, reason from job"))
    given_up = {format_id(row[0]) for row in site.rows("select id from job where state = 'failed' and reason = 'lost'")}
    check_tables(site)
    tally = check_effects(site, [id_ for id_ in acknowledged if id_ not in given_up])
    repeats = explain(site, soak.faults, lease_s)
    tell(f"faults {dict(Counter(fault.kind for fault in soak.faults))}, jobs {dict(ended)}, runs {tally.runs}")
    tell(f"lost 0, given up after three losses {len(given_up)}, repeated because of {repeats.explained}")
    tell(f"repeated because of nothing: {len(repeats.unexplained)}")
    assert not repeats.unexplained, f"runs that no fault explains, such as {repeats.unexplained[:3]}"
    assert set(ended) <= {("completed", None), ("failed", "lost")}
    assert len(acknowledged) > 10 * plan.seconds


@ON_SQLITE
def test_three_processes_on_a_file(site: Site, request: pytest.FixtureRequest, tell: Tell) -> None:
    plan, lease_s = Plan(request, 10.0), 1.0
    start = partial(site.start, "child_worker", lease_s=lease_s, slots=20, grace_s=0.2, schedules=1)
    _soak(site, Soak(site, plan.seed, [start] * 3, [], pause_s=0.5, longest_s=3 * lease_s), plan, lease_s, tell)
    tell(f"{check_occurrences(site, 'default/tick-0', SECOND)} occurrences, none missed without a record")


@pytest.fixture
def proxy(durable_postgres: Server) -> Iterator[Proxy]:
    with Proxy(durable_postgres.url) as made:
        yield made


def test_a_cluster_on_postgres(
    durable_postgres: Server, proxy: Proxy, make_site: MakeSite, request: pytest.FixtureRequest, tell: Tell
) -> None:
    """Nodes, and workers with nodes of their own, behind a proxy, on a server that is as durable as it is by default."""
    plan, lease_s = Plan(request, 60.0), 2.0
    site, server = make_site(Schema(durable_postgres.url, proxy.url)), durable_postgres
    common: dict[str, Any] = {"lease_s": lease_s, "schedules": SCHEDULES, "every_s": EVERY_S}
    starts = [partial(site.start, "child_worker", slots=20, grace_s=0.2, **common)] * WORKERS
    starts += [partial(site.start, "child_node", **common)] * NODES
    shared = [
        Shared("restart", partial(server.stop, "fast"), server.resume),
        Shared("crash", partial(server.stop, "immediate"), server.resume),
        Shared("cut", proxy.cut, lambda: None),
        Shared("hold", proxy.hold, proxy.release),
    ]
    _soak(site, Soak(site, plan.seed, starts, shared, pause_s=1.5, longest_s=3 * lease_s), plan, lease_s, tell)
    fired = sum(check_occurrences(site, f"default/tick-{n}", EVERY_S * SECOND) for n in range(SCHEDULES))
    tell(f"{SCHEDULES} schedules, {fired} occurrences, none missed without a record")
