"""Queues, nodes and workers, as those see them who run the system."""

import os
from collections.abc import Iterable

import pytest

from mainspring.access.audit import Actor
from mainspring.access.keys import Caller
from mainspring.access.roles import Role
from mainspring.core.job import Limit, Resources
from mainspring.core.partition import format_id, parse_id
from mainspring.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from mainspring.objects.place import ObjectPlace
from mainspring.store.contract import QueueRecord
from mainspring.verbs.engine import Engine
from mainspring.wire import WorkerInfo
from verbs.site import ALICE, Site

INFO = WorkerInfo(
    name="w1", slots=4, kinds=frozenset({"send", "a"}), resources=Resources(2, 100), labels=frozenset({"eu"})
)


class Desk:
    """A desk with these sessions at it, that notes what it is asked."""

    def __init__(self, here: Iterable[bytes]) -> None:
        self._here = set(here)
        self.asked: list[tuple[str, bytes]] = []

    async def drain(self, session: bytes) -> bool:
        self.asked.append(("drain", session))
        return session in self._here

    async def remove(self, session: bytes) -> bool:
        self.asked.append(("remove", session))
        return session in self._here


async def test_queues_show_their_own_tenants_jobs_limits_and_rates(site: Site) -> None:
    await site.store.put_queue(QueueRecord("default", "mail", False, Limit(5, 2.0, 120)))
    for _ in range(3):
        await site.end(parse_id(await site.send()))
    await site.send()
    await site.send(tenant="other")
    mail = await site.verbs().queues.read("mail")
    assert (mail.jobs["pending"], mail.jobs["completed"], mail.paused) == (1, 3, False)
    assert mail.ended_per_s == round(3 / 60, 3)
    assert (mail.limit.concurrency, mail.limit.rate_per_s, mail.limit.burst) == (5, 2.0, 120)
    theirs = await site.verbs("other").queues.read("mail")
    assert (theirs.jobs["pending"], theirs.jobs["completed"], theirs.limit.concurrency) == (1, 0, None)
    assert [queue.name for queue in await site.verbs().queues.list()] == ["default", "mail"]
    assert (await site.verbs(None).queues.read("mail")).jobs["pending"] == 2


async def test_a_queue_is_paused_and_keeps_its_limit(site: Site) -> None:
    await site.store.put_queue(QueueRecord("default", "mail", False, Limit(5)))
    queues = site.verbs().queues
    await queues.pause("mail")
    assert await site.store.list_queues() == [QueueRecord("default", "mail", True, Limit(5))]
    await queues.resume("mail")
    assert not (await queues.read("mail")).paused
    await site.send(queue="special")
    await queues.pause("special")
    with pytest.raises(NotFoundError, match="known are default, mail, special"):
        await queues.pause("mial")
    for bad in ("", "a\nb"):
        with pytest.raises(InvalidError):
            await queues.read(bad)
    assert await site.audited() == [("pause_queue", "mail"), ("resume_queue", "mail"), ("pause_queue", "special")]


async def test_i16_a_pause_is_the_tenants_own(on_sqlite: Site) -> None:
    await on_sqlite.verbs("acme").queues.pause("mail")
    assert not (await on_sqlite.verbs().queues.read("mail")).paused
    assert (await on_sqlite.verbs("acme").queues.read("mail")).paused


async def test_nodes_are_drained_while_they_live_and_removed_when_they_do_not(site: Site) -> None:
    alive, gone = b"a" * 16, b"b" * 16
    await site.store.insert_node(alive, "alive", 100.0, "http://10.0.0.1:8420")
    await site.store.insert_node(gone, "gone", 5.0)
    site.clock.advance(10)
    await site.store.insert_session(os.urandom(16), alive, "w1", INFO)
    nodes = site.verbs().nodes
    first, second = sorted(await nodes.list(), key=lambda node: node.name)
    assert (first.url, first.alive, first.workers, second.alive) == ("http://10.0.0.1:8420", True, 1, False)
    with pytest.raises(ConflictError, match="is alive"):
        await nodes.remove("alive")
    with pytest.raises(ConflictError, match="stopped without leaving"):
        await nodes.drain(["alive", "gone"])
    assert not any(node.draining for node in await nodes.list())
    assert [node.name for node in await nodes.drain(["alive"])] == ["alive"]
    await nodes.remove("gone")
    assert [(node.name, node.draining) for node in await nodes.list()] == [("alive", True)]
    assert await site.audited("*") == [("drain_node", "alive"), ("remove_node", "gone")]


async def test_workers_are_shown_as_they_registered(site: Site) -> None:
    node, session = await site.new_node(b"n" * 16), b"\1" * 16
    await site.store.insert_session(session, node, "w1", INFO)
    await site.store.insert_session(b"\2" * 16, node, "old")
    await site.store.insert_session(b"\3" * 16, node, "theirs", INFO, "other")
    job = parse_id(await site.send())
    await site.assign(session, [job])
    first, second = await site.verbs().workers.list()
    assert (first.id, first.name, first.node, first.tenant, first.alive) == (
        format_id(session),
        "w1",
        "n" * 16,
        None,
        True,
    )
    assert (first.slots, first.live, first.kinds, first.labels) == (4, 1, ["a", "send"], ["eu"])
    assert first.resources == Resources(2, 100)
    assert (second.slots, second.kinds, second.resources) == (None, [], None)
    assert len(await site.verbs(None).workers.list()) == 3
    site.clock.advance(1000)
    assert not any(worker.alive for worker in await site.verbs().workers.list())


async def test_workers_are_asked_at_their_desk(on_sqlite: Site) -> None:
    node, here, elsewhere = await on_sqlite.new_node(), b"\1" * 16, b"\2" * 16
    for session in (here, elsewhere):
        await on_sqlite.store.insert_session(session, node, f"w{session[0]}", INFO)
    with pytest.raises(ConflictError, match="--server"):
        await on_sqlite.verbs().workers.drain(format_id(here))
    desk = Desk([here])
    engine = Engine(on_sqlite.store, ObjectPlace("memory:///"), desk=desk)
    workers = engine.verbs("default", ALICE).workers
    await workers.drain(format_id(here))
    await workers.remove(format_id(here))
    assert desk.asked == [("drain", here), ("remove", here)]
    with pytest.raises(ConflictError, match="at another node"):
        await workers.remove(format_id(elsewhere))
    with pytest.raises(NotFoundError):
        await workers.drain(format_id(b"\3" * 16))
    with pytest.raises(InvalidError, match="worker"):
        await workers.drain("w1")
    engine.close()


async def test_i16_a_tenants_operator_ends_only_that_tenants_workers(on_sqlite: Site) -> None:
    node, shared, theirs = await on_sqlite.new_node(), b"\1" * 16, b"\2" * 16
    await on_sqlite.store.insert_session(shared, node, "shared", INFO)
    await on_sqlite.store.insert_session(theirs, node, "theirs", INFO, "other")
    desk = Desk([shared, theirs])
    engine = Engine(on_sqlite.store, ObjectPlace("memory:///"), desk=desk)
    caller = Caller(key="k", name="op", role=Role.OPERATOR, tenant="default", requests_per_s=None)
    workers = engine.verbs("default", Actor("op", "test", caller)).workers
    with pytest.raises(ForbiddenError, match="serves all tenants"):
        await workers.remove(format_id(shared))
    with pytest.raises(NotFoundError):
        await workers.remove(format_id(theirs))
    assert desk.asked == []
    engine.close()
