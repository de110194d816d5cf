"""Workers, as operators see them: their sessions (see `faces.Workers`).

Asking one to leave, or ending it, is the business of the desk where it pulls: that of the node in this process.
"""

import uuid
from collections.abc import Sequence

from mainspring.access.audit import Actor
from mainspring.core.partition import format_id
from mainspring.core.timer import from_micros
from mainspring.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from mainspring.store.contract import NodeRecord, SessionRecord
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine, WorkerDesk


class LocalWorkers:
    """Those that serve one tenant, alone or among others; or all."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._engine = engine
        self._store = engine.store
        self._tenant = tenant
        self._actor = actor

    async def list(self) -> Sequence[d.WorkerDocument]:
        nodes = {node.id: node for node in await self._store.list_nodes()}
        now = self._store.clock.now()
        alive = {node.id for node in nodes.values() if node.lease_until >= now}
        sessions = [session for session in await self._store.list_sessions() if self._is_ours(session)]
        return [_document(session, nodes.get(session.node), session.node in alive) for session in sessions]

    async def drain(self, worker: str) -> None:
        session = await self._session(worker)
        self._require(await self._desk(session).drain(session.id), session)
        await self._note("drain_worker", session)

    async def remove(self, worker: str) -> None:
        session = await self._session(worker)
        self._require(await self._desk(session).remove(session.id), session)
        await self._note("end_worker", session)

    def _desk(self, session: SessionRecord) -> WorkerDesk:
        caller = self._actor.caller
        if session.tenant is None and caller is not None and not caller.everywhere:
            raise ForbiddenError(f"worker {session.name} serves all tenants: use a key of all tenants")
        if self._engine.desk is None:
            raise ConflictError("a worker is asked through the server that it works for: name that with --server")
        return self._engine.desk

    def _require(self, here: bool, session: SessionRecord) -> None:
        if not here:
            raise ConflictError(f"worker {session.name} is at another node: ask the server there")

    async def _session(self, worker: str) -> SessionRecord:
        (session,) = await self._store.read_sessions([parse_worker(worker)])
        if session is None or not self._is_ours(session):
            raise NotFoundError(f"there is no worker {worker}, or it has left")
        return session

    def _is_ours(self, session: SessionRecord) -> bool:
        return self._tenant is None or session.tenant in (None, self._tenant)

    async def _note(self, action: str, session: SessionRecord) -> None:
        target = format_id(session.id)
        await self._engine.audit.record(session.tenant, self._actor, action, target, {"name": session.name})


def parse_worker(text: str) -> bytes:
    """The session that an id means."""
    try:
        return uuid.UUID(text).bytes
    except (ValueError, AttributeError, TypeError):
        raise InvalidError("worker", f"{str(text)[:80]!r} is not the id of a worker: expected a UUID") from None


def _document(session: SessionRecord, node: NodeRecord | None, alive: bool) -> d.WorkerDocument:
    info = session.info
    return d.WorkerDocument(
        id=format_id(session.id),
        name=session.name,
        node=node.name if node else format_id(session.node),
        tenant=session.tenant,
        slots=info.slots if info else None,
        live=session.live,
        kinds=sorted(info.kinds) if info else [],
        labels=sorted(info.labels) if info else [],
        resources=info.resources if info else None,
        alive=alive,
        started_at=from_micros(session.started_at),
    )
