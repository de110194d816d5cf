"""The engine: what all verbs of one process share over its store.

One submitter groups everybody's jobs, one waiter looks for everybody's ends, one log of events serves all listeners. `verbs` gives
somebody the verbs for a tenant; that costs next to nothing, so each request makes its own.
"""

from typing import TYPE_CHECKING, Protocol

from mainspring.access.audit import Actor, AuditLog
from mainspring.objects.place import ObjectPlace
from mainspring.secrets.keys import MasterKeys
from mainspring.secrets.objects import SealedObjects
from mainspring.secrets.sealing import Sealing
from mainspring.secrets.vault import Vault
from mainspring.store.contract import Store
from mainspring.store.service import ALL_TENANTS
from mainspring.submit import Submitter
from mainspring.verbs.drafts import Drafts
from mainspring.verbs.events import EventLog
from mainspring.verbs.pieces import Pieces
from mainspring.verbs.waiter import Waiter
from mainspring.verbs.watch import JobWatch

if TYPE_CHECKING:
    from mainspring.verbs.local import LocalVerbs


class WorkerDesk(Protocol):
    """What operators may ask of the desk where workers register."""

    async def drain(self, session: bytes) -> bool:
        """Ask a worker to take nothing new, finish and leave; False where its session is not at this desk."""

    async def remove(self, session: bytes) -> bool:
        """End its session at once; False where it is not at this desk."""


class Engine:
    """Made in the event loop in which it is used. `desk`: of the node in this process, if there is one. `keys`: what secrets and
    the jobs of sealed tenants are opened with."""

    def __init__(
        self,
        store: Store,
        objects: ObjectPlace,
        *,
        desk: WorkerDesk | None = None,
        keys: MasterKeys | None = None,
    ) -> None:
        self.store = store
        self.objects = objects
        self.desk = desk
        self.keys = keys
        self.vault = Vault(store, keys)
        self.sealing = Sealing(store, keys)
        self.submitter = Submitter(store, store.clock, self.sealing)
        self.drafts = Drafts(store)
        self.waiter = Waiter(store)
        self.audit = AuditLog(store)
        self.events = EventLog(store)
        self.watch = JobWatch(store)
        self.sealed = SealedObjects(objects, store, self.sealing, self.vault)
        self.pieces = Pieces(store, self.sealed)
        self._silence = [store.subscribe(part.hear) for part in (self.waiter, self.events, self.watch, self.sealing)]

    def verbs(self, tenant: str | None, actor: Actor) -> "LocalVerbs":
        """What `actor` may ask for one tenant, or for all of them (None, or `"*"` as in a key or a header)."""
        from mainspring.verbs.local import LocalVerbs  # whose groups need the engine

        return LocalVerbs(self, None if tenant == ALL_TENANTS else tenant, actor)

    def close(self) -> None:
        """Let everybody go who waits; the store is its opener's."""
        while self._silence:
            self._silence.pop()()
        self.waiter.close()
        self.events.close()
        self.watch.close()
        self.sealing.close()
        self.pieces.close()
