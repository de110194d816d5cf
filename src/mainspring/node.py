"""The node: one scheduler process, put together here and nowhere else.

It makes the parts, gives each the others it needs, and passes hints to those they concern. A node whose lease ran out (the
machine slept, the disk stood still) starts again under a new name: what it had is with others now.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable

from mainspring.dispatch.canceller import Canceller
from mainspring.dispatch.desk import Desk
from mainspring.dispatch.dispatcher import Dispatcher
from mainspring.dispatch.outfitting import Outfitter
from mainspring.errors import StoreError, StoreUnavailableError
from mainspring.objects.place import ObjectPlace
from mainspring.runtime.gauges import Gauges
from mainspring.runtime.log import get_logger
from mainspring.runtime.service import Service
from mainspring.secrets.keys import MasterKeys
from mainspring.secrets.objects import SealedObjects
from mainspring.secrets.sealing import Sealing
from mainspring.secrets.vault import Vault
from mainspring.settle.settler import Settler
from mainspring.store.contract import Hint, Store
from mainspring.sweep.janitor import Janitor
from mainspring.sweep.orphans import PATIENCE_S
from mainspring.sweep.ownership import LEASE_S, Heartbeat, Ownership
from mainspring.sweep.pruner import Pruner
from mainspring.sweep.rescuer import Rescuer
from mainspring.sweep.sweeper import Sweeper
from mainspring.sweep.ticker import Ticker

_log = get_logger("mainspring.node")

_RETRY_S = 1.0


class Node:
    """All parts of one node over one store. `start` runs them; tests call `tick` instead."""

    def __init__(
        self,
        store: Store,
        objects: ObjectPlace,
        *,
        keep_s: float,
        keep_failed_s: float,
        name: str | None = None,
        leave: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
        url: str | None = None,
        keys: MasterKeys | None = None,
    ) -> None:
        """`leave` is called when somebody asks this node to: whoever runs it stops its workers, and then it. `url`: where other
        nodes reach its API. `keys`: what secrets and sealed jobs are opened with."""
        self.store = store
        self.url = url
        self.id = b""
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.gauges = gauges = Gauges()
        self._loop = asyncio.get_running_loop()
        self._restarting: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._leave = leave
        self._leaving = False
        clock = store.clock
        self.sweeper = Sweeper(store, clock, gauges)
        self._sealing, self._vault = Sealing(store, keys), Vault(store, keys)
        self.ticker = Ticker(store, clock, gauges, self._sealing)
        self.pruner = Pruner(store, clock, gauges, keep_s, keep_failed_s)
        self.janitor = Janitor(store, objects, clock, gauges)
        settle = Settler(store, clock, gauges).settle
        sealed = SealedObjects(objects, store, self._sealing, self._vault)
        self.desk = Desk(store, sealed, self._sealing, settle, self._wake_dispatcher)
        self.dispatcher = Dispatcher(
            *(store, clock, store.partitions, gauges, self.desk.deliver, self.desk.return_unseen),
            outfitter=Outfitter(self._sealing, self._vault),
            settle=settle,
        )
        self.desk.dispatcher = self.dispatcher
        self.rescuer = Rescuer(store, gauges, self.desk.end_silent)
        self.ownership = Ownership(
            store,
            clock,
            store.partitions,
            self.desk.capacity,
            own=self._own,
            ended=self._rescue,
            leave=self._asked_to_leave,
            monotonic=monotonic,
        )
        self.canceller = Canceller(self.desk)
        parts = (self.ownership, self.sweeper, self.ticker, self.rescuer, self.pruner, self.janitor, self.canceller)
        self._services = {part.name: Service(part) for part in (*parts, self.dispatcher)}

    async def join(self) -> None:
        """Register with the store and take a share of the partitions; nothing runs yet."""
        self.id = secrets.token_bytes(16)
        await self.store.insert_node(self.id, self.name, LEASE_S, self.url)
        if self.dispatcher.closed:  # asked to stop before it began
            await self.store.drain_nodes([self.id])
        self.desk.node = self.dispatcher.node = self.id
        self.ownership.join(self.id)
        self.rescuer.look()
        await self.ownership.look()
        self._unsubscribe = self.store.subscribe(self._hear)

    async def start(self) -> None:
        await self.join()
        self.ownership.renewed()
        self._heartbeat = Heartbeat(self.store, self.id, self._lost, self.ownership.renewed)
        self._heartbeat.start()
        for service in self._services.values():
            service.start()

    def serves_workers(self) -> None:
        """This node has an API: workers that have lost theirs can come here."""
        self.rescuer.orphans.patience_s = PATIENCE_S

    def drain(self) -> None:
        """Assign nothing more, and let others have the partitions; what runs here goes on."""
        if not self.dispatcher.closed:
            self.dispatcher.close()
            self._telling = self._loop.create_task(self._tell_draining())

    async def stop(self) -> None:
        """After the workers have left: hand everything over at once instead of letting the lease run out."""
        self._leaving = True
        if self._restarting is not None:
            await self._restarting
        self._heartbeat.stop()
        await self._stop_services()
        await self.leave()

    async def leave(self) -> None:
        if self._telling is not None:
            await self._telling
        self._unsubscribe()
        self._sealing.close()
        try:
            await self.store.end_nodes({self.id: None})
            self.rescuer.look()
            await self.rescuer.run_once()
        except StoreUnavailableError as error:
            _log.warning("left without a word: others take over when the lease has run out", error=str(error))

    async def tick(self) -> None:
        """Everything that is due, once, in the order of the flow: for tests with a manual clock."""
        self.store.renew_lease(self.id, LEASE_S, lambda _: None)
        before = (self.ownership, self.ticker, self.sweeper, self.rescuer)
        for part in (*before, self.pruner, self.janitor, self.canceller):
            while await part.run_once() == 0:
                pass
        await self.dispatcher.run_once()
        await self.dispatcher.landed()

    async def _stop_services(self) -> None:
        for service in self._services.values():
            await service.stop()
        with contextlib.suppress(StoreError):
            await self.dispatcher.landed()

    def _own(self, partitions: Iterable[int]) -> None:
        owned = sorted(partitions)
        self.sweeper.own(owned)
        self.janitor.own(owned)
        self.dispatcher.own(owned)
        self._services["sweeper"].wake()
        self._wake_dispatcher()

    def _rescue(self) -> None:
        self.rescuer.look()
        self._services["rescuer"].wake()

    def _asked_to_leave(self) -> None:
        if not self.dispatcher.closed:
            _log.info("asked to leave", node=self.id.hex())
            self.dispatcher.close()
            self._leave()

    async def _tell_draining(self) -> None:
        """What cannot be told is found out when the lease has ended: stopping does not wait for it."""
        try:
            await self.store.drain_nodes([self.id])
        except StoreError as error:
            _log.warning("cannot let others have the partitions yet", error=str(error))

    def _wake_dispatcher(self) -> None:
        self._services["dispatcher"].wake()

    def _hear(self, hint: Hint) -> None:
        match hint.topic:
            case "timer":
                if self.sweeper.hear(hint):
                    self._services["sweeper"].wake()
            case "schedule":
                if self.ticker.hear(hint):
                    self._services["ticker"].wake()
            case "cancel":
                self._services["canceller"].wake()
            case "node":
                self.ownership.hear()
                self._services["ownership"].wake()
            case "secret":
                self._vault.hear(hint)
            case _:
                self._sealing.hear(hint)
                self.dispatcher.hear(hint)
                self._wake_dispatcher()

    def _lost(self) -> None:
        """Called on the writer's thread, once: others have ended this node."""
        self._loop.call_soon_threadsafe(self._restart)

    def _restart(self) -> None:
        if not self._leaving:
            self._restarting = self._loop.create_task(self._start_again())

    async def _start_again(self) -> None:
        _log.warning("starting again under a new node id", node=self.id.hex())
        await self._stop_services()
        self._unsubscribe()
        self._unsubscribe = lambda: None
        self.desk.abandon()
        while not self._leaving:
            try:
                await self.start()
                break
            except StoreError as error:
                _log.warning("cannot start again yet", error=str(error), again_in_s=_RETRY_S)
                await asyncio.sleep(_RETRY_S)
        self._restarting = None
