"""Who owns which partitions, with real processes.

By capacity, taken over after a kill, moved no more than needed, and who is idle helps out.
"""

import time

from faults.checks import check_effects
from faults.conftest import MakeSite
from faults.harness import Child, Site, until
from faults.places import Schema
from postgres.server import Server

LEASE_S = 1.0
PARTITIONS = 64

Owners = dict[int, str]  # by partition, the process


def _owners(site: Site) -> Owners:
    rows = site.rows("select p.number, n.name from partition p join node n on n.id = p.node where n.ended_at is null")
    return {number: name.rpartition("-")[2] for number, name in rows}


def _shares(site: Site, children: list[Child]) -> list[int]:
    owners = list(_owners(site).values())
    return [owners.count(str(child.pid)) for child in children]


def test_three_nodes_share_by_capacity_and_take_over_and_make_room(make_site: MakeSite, postgres: Server) -> None:
    site = make_site(Schema(postgres.url))
    nodes = [site.worker(lease_s=LEASE_S, slots=slots) for slots in (10, 20, 34)]
    until(lambda: _shares(site, nodes) == [11, 20, 33], "one each, and the rest by capacity")

    victim = nodes.pop()
    before = _owners(site)
    victim.kill()
    killed_s = time.monotonic()
    until(lambda: sum(_shares(site, nodes)) == PARTITIONS, "the others own everything")
    took_s = time.monotonic() - killed_s
    assert took_s < LEASE_S + 2.0, f"taken over after {took_s:.1f} s"
    after = _owners(site)
    moved = {number for number in before if before[number] != after[number]}
    assert moved == {number for number, owner in before.items() if owner == str(victim.pid)}, "only what was free"

    nodes.append(site.worker(lease_s=LEASE_S, slots=30))
    until(lambda: _shares(site, nodes) == [11, 21, 32], "the one that joined has its share")
    joined = _owners(site)
    newcomer = str(nodes[-1].pid)
    moved = {number for number in after if after[number] != joined[number]}
    assert moved == {number for number, owner in joined.items() if owner == newcomer}, "nothing moved but its share"


def test_an_idle_node_takes_work_from_a_busy_one(make_site: MakeSite, postgres: Server) -> None:
    """The busy one owns almost everything and is full; what lies in its partitions runs elsewhere."""
    site = make_site(Schema(postgres.url))
    busy = site.worker(lease_s=LEASE_S, slots=60)
    jobs = site.jobs()
    with jobs.app.sync as app:
        held = [job.id for job in app.submit_many(jobs.gated.job(str(site.folder / "gate")) for _ in range(60))]
        until(lambda: len(site.effects()) == 60, "it is busy")
        idle = site.worker(lease_s=LEASE_S, slots=2)
        until(lambda: _shares(site, [busy, idle]) == [61, 3], "by capacity")
        quick = app.submit_many(jobs.quick.job(n) for n in range(200))
        assert {job.result(timeout=30) for job in quick} == {idle.pid}
    (site.folder / "gate").touch()
    site.drained()
    assert check_effects(site, [*held, *(job.id for job in quick)]).repeats == 0
