"""The verbs over HTTP: `Remote` is one server, and `RemoteVerbs` all that can be asked of it for one tenant.

The same face as over a store (`verbs.faces`); what a server refuses is raised as the error that the same call over a store
raises. Who asks is the key's business, so there is no actor here.
"""

from mainspring.client.asking import OWN, Asker
from mainspring.client.audit import RemoteAudit
from mainspring.client.jobs import RemoteJobs
from mainspring.client.keys import RemoteKeys
from mainspring.client.nodes import RemoteNodes
from mainspring.client.queues import RemoteQueues
from mainspring.client.schedules import RemoteSchedules
from mainspring.client.secrets import RemoteSecrets
from mainspring.client.system import RemoteSystem
from mainspring.client.templates import RemoteTemplates
from mainspring.client.tenants import RemoteTenants
from mainspring.client.transport import Transport
from mainspring.client.waiting import RemoteWaiter
from mainspring.client.workers import RemoteWorkers


class Remote:
    """One server and the connections to it. Made inside the event loop that uses it."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._waiters: dict[str | None, RemoteWaiter] = {}

    def verbs(self, tenant: str | None = None) -> "RemoteVerbs":
        """Cheap. `tenant` None: all that the key may act for."""
        asker = Asker(self.transport, tenant)
        waiter = self._waiters.get(tenant) or self._waiters.setdefault(tenant, RemoteWaiter(asker))
        return RemoteVerbs(asker, waiter)

    def own(self) -> "RemoteVerbs":
        """For the tenant of the key; for the default one where it is a key of all tenants."""
        return self.verbs(OWN)

    async def close(self) -> None:
        """Whoever still waits for a job is cancelled."""
        for waiter in self._waiters.values():
            waiter.close()
        await self.transport.close()


class RemoteVerbs:
    """`verbs.faces.Verbs`."""

    def __init__(self, asker: Asker, waiter: RemoteWaiter) -> None:
        self.jobs = RemoteJobs(asker, waiter)
        self.schedules = RemoteSchedules(asker)
        self.templates = RemoteTemplates(asker)
        self.queues = RemoteQueues(asker)
        self.workers = RemoteWorkers(asker)
        self.nodes = RemoteNodes(asker)
        self.system = RemoteSystem(asker)
        self.keys = RemoteKeys(asker)
        self.secrets = RemoteSecrets(asker)
        self.tenants = RemoteTenants(asker)
        self.audit = RemoteAudit(asker)
