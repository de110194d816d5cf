"""All verbs over a store, for one tenant (or all) and one actor. See `faces.Verbs`."""

from mainspring.access.audit import Actor
from mainspring.verbs.engine import Engine
from mainspring.verbs.jobs import LocalJobs


class LocalVerbs:
    """Made per request: a group is made when it is asked for."""

    __slots__ = ("_for",)

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._for = (engine, tenant, actor)

    @property
    def jobs(self) -> LocalJobs:
        return LocalJobs(*self._for)
