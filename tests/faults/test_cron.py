"""Many nodes tick the same schedules, and some are killed: one job per occurrence, and none is left out without a record."""

import time

from faults.checks import check_occurrences, check_tables
from faults.harness import Child, Site, until
from mainspring.core.timer import SECOND

LEASE_S = 1.0
NODES, SCHEDULES = 4, 50
TICKS = 8


def test_i9_four_nodes_and_fifty_schedules_with_kills(site: Site) -> None:
    nodes = [_node(site) for _ in range(NODES)]
    fired = "select count(*) from occurrence"
    for place in range(3):
        before = site.value(fired)
        until(lambda before=before: site.value(fired) >= before + SCHEDULES, "they fire")  # type: ignore[misc]
        nodes[place].kill()
        nodes[place] = _node(site)
    until(lambda: site.value(fired) >= TICKS * SCHEDULES, "they go on")
    for node in nodes:
        node.kill()

    counts = {number: check_occurrences(site, f"default/tick-{number}", SECOND) for number in range(SCHEDULES)}
    assert min(counts.values()) >= TICKS - 1
    assert site.value("select count(*) from job") == sum(counts.values())
    assert site.value("select count(*) from missed") == 0, "nothing was late enough to be left out"
    watermark = site.value("select min(watermark_at) from schedule")
    assert watermark > (time.time() - 5) * 1_000_000, "no schedule stayed behind"
    check_tables(site)


def _node(site: Site) -> Child:
    child = site.start("child_node", lease_s=LEASE_S, schedules=SCHEDULES)
    child.hear("ready")
    return child
