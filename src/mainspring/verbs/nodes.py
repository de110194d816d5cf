"""Nodes: who works on this store, asking one to leave, ending one that stopped (see `faces.Nodes`)."""

from collections.abc import Iterable, Sequence

from mainspring.access.audit import Actor
from mainspring.core.partition import format_id
from mainspring.core.timer import Micros, from_micros
from mainspring.core.words import listed
from mainspring.errors import ConflictError, NotFoundError
from mainspring.store.contract import NodeRecord, SessionRecord
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine

_SHOWN_ID = 8
_SHORTEST_ID = 4


class LocalNodes:
    """Nodes belong to nobody's tenant: what is done to them is in the audit chain of all."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._engine = engine
        self._store = engine.store
        self._actor = actor

    async def list(self) -> Sequence[d.NodeDocument]:
        return await self._documents(await self._store.list_nodes())

    async def drain(self, names: Sequence[str]) -> Sequence[d.NodeDocument]:
        """Where one has stopped without leaving, that is a `ConflictError`."""
        found = await self._find(names)
        for node in found:
            if node.lease_until < self._store.clock.now():
                raise ConflictError(f"{node.name} has stopped without leaving: a running node takes over by itself")
        await self._store.drain_nodes([node.id for node in found])
        for node in found:
            await self._note("drain_node", node)
        return await self._documents(found)

    async def remove(self, name: str) -> None:
        (node,) = await self._find([name])
        if node.lease_until >= self._store.clock.now():
            raise ConflictError(f"{node.name} is alive: ask it to leave with `mainspring nodes drain {node.name}`")
        if not await self._store.end_nodes({node.id: node.lease_until}):
            raise ConflictError(f"{node.name} has come back, or has been ended by another node: look again")
        await self._note("remove_node", node)

    async def _documents(self, nodes: Sequence[NodeRecord]) -> Sequence[d.NodeDocument]:
        sessions, now = await self._store.list_sessions(), self._store.clock.now()
        return [_document(node, sessions, now) for node in nodes]

    async def _find(self, names: Iterable[str]) -> Sequence[NodeRecord]:
        """The nodes meant, or nothing at all."""
        nodes = await self._store.list_nodes()
        return tuple({found.id: found for name in names for found in [_named(name, nodes)]}.values())

    async def _note(self, action: str, node: NodeRecord) -> None:
        await self._engine.audit.record(None, self._actor, action, node.name, {"id": format_id(node.id)})


def _document(node: NodeRecord, sessions: Iterable[SessionRecord], now: Micros) -> d.NodeDocument:
    own = [session for session in sessions if session.node == node.id]
    return d.NodeDocument(
        id=format_id(node.id),
        name=node.name,
        url=node.url,
        alive=node.lease_until >= now,
        draining=node.draining,
        capacity=node.capacity,
        partitions=node.partitions,
        workers=len(own),
        live=sum(session.live for session in own),
        started_at=from_micros(node.started_at),
        lease_until=from_micros(node.lease_until),
    )


def _named(name: str, nodes: Sequence[NodeRecord]) -> NodeRecord:
    found = [node for node in nodes if node.name == name] or [node for node in nodes if _has_id(node, name)]
    if not found:
        known = listed(sorted(node.name for node in nodes))
        raise NotFoundError(f"there is no node {name!r}; {f'there are {known}' if nodes else 'there is none at all'}")
    if len(found) > 1:
        ids = listed(format_id(node.id)[:_SHOWN_ID] for node in found)
        raise ConflictError(f"{name!r} is not one node but {len(found)}: say which by its id: {ids}")
    return found[0]


def _has_id(node: NodeRecord, start: str) -> bool:
    return len(start) >= _SHORTEST_ID and format_id(node.id).startswith(start.lower())
