"""Sessions that outlive their node: adopted by another one, or ended."""

import asyncio

from contract.scene import START, Scene
from mainspring.store.contract import KindRecord, LiveJob, Pick, SessionRecord, Settlement
from mainspring.wire import WorkerInfo

INFO = WorkerInfo(name="w", slots=3, kinds=frozenset({"work"}))


async def remote(scene: Scene, node: bytes, name: bytes = b"remote") -> bytes:
    await scene.store.insert_session(name, node, name.decode(), INFO, "acme", remote=True)
    return name


async def test_a_remote_workers_session_outlives_its_node_and_a_local_ones_does_not(scene: Scene) -> None:
    node = await scene.new_node()
    session = await remote(scene, node)
    await scene.store.insert_session(b"local", node, "local")
    assert await scene.store.list_orphans() == {}
    assert await scene.store.end_nodes({node: None}) == 1
    assert await scene.store.read_sessions([session, b"local"]) == [
        SessionRecord(session, node, "remote", START, INFO, 0, "acme", True),
        None,
    ]
    assert await scene.store.list_orphans() == {session: node}


async def test_an_orphan_is_adopted_with_what_is_live_in_it_and_again_with_the_same_answer(scene: Scene) -> None:
    old, new = await scene.new_node(b"old"), await scene.new_node(b"new")
    session = await remote(scene, old)
    jobs = await scene.submit(2, result_ttl="1h")
    await scene.assign(session, jobs)
    await scene.store.end_nodes({old: None})
    assert await scene.store.rescue_attempts(10) == 0
    records = [await scene.record(job) for job in sorted(jobs)]
    assert {record.options.result_ttl_s for record in records} == {3600.0}
    for _ in range(2):
        live = await scene.store.adopt_session(session, new)
        assert live is not None
        assert sorted(live, key=lambda each: each.job) == [LiveJob(r.id, 1, r.lane, r.options) for r in records]
    assert await scene.store.list_orphans() == {}
    (record,) = await scene.store.read_sessions([session])
    assert record is not None
    assert record.node == new
    settlements = [Settlement(job, 1, "completed") for job in jobs]
    assert await scene.store.settle_attempts(session, settlements) == [True, True]


async def test_what_is_no_orphan_is_not_adopted(scene: Scene) -> None:
    old, new = await scene.new_node(b"old"), await scene.new_node(b"new")
    session = await remote(scene, old)
    await scene.store.insert_session(b"local", old, "local")
    assert await scene.store.adopt_session(session, new) is None, "its node lives"
    assert await scene.store.adopt_session(b"nobody", new) is None
    await scene.store.end_nodes({old: None})
    assert await scene.store.adopt_session(b"local", new) is None, "it ended with its node"
    await scene.store.end_nodes({new: None})
    assert await scene.store.adopt_session(session, new) is None, "this node has ended itself"
    third = await scene.new_node(b"third")
    await scene.store.end_sessions([session])
    assert await scene.store.adopt_session(session, third) is None, "it has ended"


async def test_of_many_nodes_one_adopts(scene: Scene) -> None:
    old = await scene.new_node(b"old")
    session = await remote(scene, old)
    nodes = [await scene.new_node(b"node %d" % number) for number in range(4)]
    await scene.store.end_nodes({old: None})
    answers = await asyncio.gather(*(scene.store.adopt_session(session, node) for node in nodes))
    assert sorted(answer is None for answer in answers) == [False, True, True, True]
    (record,) = await scene.store.read_sessions([session])
    assert record is not None
    assert record.node == nodes[[answer is not None for answer in answers].index(True)]


async def test_who_no_longer_has_a_session_neither_ends_it_nor_assigns_to_it(scene: Scene) -> None:
    """A node that was frozen, ended by others, and does not know it yet."""
    old, new = await scene.new_node(b"old"), await scene.new_node(b"new")
    session = await remote(scene, old)
    await scene.store.end_nodes({old: None})
    await scene.store.adopt_session(session, new)
    await scene.store.end_sessions([session], old)
    assert (await scene.store.read_sessions([session]))[0] is not None
    job = await scene.submit_one()
    limited = await scene.submit_one(queue="q")
    await scene.limit("queue/default/q", concurrency=5)
    ready = {entry.job: entry for entry in await scene.ready()}
    plain, bound = ready[job], ready[limited]
    for pick in (Pick(session, [plain], node=old), Pick(session, [bound], (("queue/default/q", ""),), old)):
        (answer,) = await scene.store.assign_jobs([pick])
        assert (answer.won, answer.lost) == ([], pick.jobs)
    (answer,) = await scene.store.assign_jobs([Pick(session, [plain], node=new)])
    assert answer.won == [plain]
    (answer,) = await scene.store.assign_jobs([Pick(session, [bound], (("queue/default/q", ""),), new)])
    assert answer.won == [bound]
    await scene.store.end_sessions([session], new)
    assert await scene.store.read_sessions([session]) == [None]
    assert await scene.store.rescue_attempts(10) == 2


async def test_kinds_are_added_only_where_nobody_has_declared_them(scene: Scene) -> None:
    await scene.store.put_kinds([KindRecord("known", b'{"retries":1}')], {})
    await scene.store.add_kinds([KindRecord("new", b"{}"), KindRecord("known", b"{}")])
    assert {kind.name: kind.defaults for kind in await scene.store.list_kinds()} == {
        "known": b'{"retries":1}',
        "new": b"{}",
    }
    await scene.store.add_kinds([])


async def test_the_first_value_of_a_setting_stays(scene: Scene) -> None:
    assert await scene.store.agree("place", None) is None
    given = await asyncio.gather(*(scene.store.agree("place", each) for each in ("a", "b", "c")))
    assert len(set(given)) == 1
    assert await scene.store.agree("place", "d") == await scene.store.agree("place", None) == given[0]
    assert await scene.store.agree("other", "d") == "d"
