"""All verbs over a store, for one tenant (or all) and one actor. See `faces.Verbs`."""

from mainspring.access.audit import Actor
from mainspring.verbs.audit import LocalAudit
from mainspring.verbs.engine import Engine
from mainspring.verbs.jobs import LocalJobs
from mainspring.verbs.keys import LocalKeys
from mainspring.verbs.nodes import LocalNodes
from mainspring.verbs.queues import LocalQueues
from mainspring.verbs.schedules import LocalSchedules
from mainspring.verbs.secrets import LocalSecrets
from mainspring.verbs.system import LocalSystem
from mainspring.verbs.templates import LocalTemplates
from mainspring.verbs.tenants import LocalTenants
from mainspring.verbs.workers import LocalWorkers


class LocalVerbs:
    """Made per request: a group is made when it is asked for."""

    __slots__ = ("_for",)

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._for = (engine, tenant, actor)

    @property
    def jobs(self) -> LocalJobs:
        return LocalJobs(*self._for)

    @property
    def schedules(self) -> LocalSchedules:
        return LocalSchedules(*self._for)

    @property
    def templates(self) -> LocalTemplates:
        return LocalTemplates(*self._for)

    @property
    def queues(self) -> LocalQueues:
        return LocalQueues(*self._for)

    @property
    def workers(self) -> LocalWorkers:
        return LocalWorkers(*self._for)

    @property
    def nodes(self) -> LocalNodes:
        return LocalNodes(*self._for)

    @property
    def system(self) -> LocalSystem:
        return LocalSystem(*self._for)

    @property
    def keys(self) -> LocalKeys:
        return LocalKeys(*self._for)

    @property
    def secrets(self) -> LocalSecrets:
        return LocalSecrets(*self._for)

    @property
    def tenants(self) -> LocalTenants:
        return LocalTenants(*self._for)

    @property
    def audit(self) -> LocalAudit:
        return LocalAudit(*self._for)
