"""What can be asked, as protocols: the docstrings are the specification, for the work over a store and for the one over HTTP.

Everything is asked for one tenant, or for all of them where `tenant` is None. What belongs to another tenant does not exist:
`NotFoundError`. Names and ids that are no such thing are an `InvalidError` that names the field. What changes something that
people configure, and what people do to jobs by hand, leaves an audit record; submits do not.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Any, Protocol

from mainspring.core.draft import Draft
from mainspring.store.contract import Inserted
from mainspring.verbs import documents as d


class Jobs(Protocol):
    """Submitting, reading and steering jobs."""

    async def submit(self, drafts: Sequence[Draft]) -> Sequence[Inserted]:
        """One answer per draft, in order; durable when this returns. A conflict is an answer."""

    async def draft(self, request: d.SubmitRequest) -> Draft:
        """Check a job that comes without the application's code: its kind must be known, the defaults are the kind's."""

    async def list(self, which: d.JobQuery, *, after: str | None = None, limit: int = 100) -> d.JobsPage:
        """Newest first; where an ended state is asked for, latest end first. `after`: a cursor from an earlier page. Pages
        neither repeat nor miss a job that was there all the time."""

    async def read(self, job: str) -> d.JobDocument: ...

    async def wait(self, job: str) -> d.EndDocument:
        """When it has ended; waits as long as it takes. All waiters share one query."""

    async def wait_any(self, request: d.WaitRequest) -> d.WaitAnswer:
        """When at least one of many has ended, or after a time: those that have, and the ids of no job."""

    def result(self, job: str) -> AsyncGenerator[bytes, None]:
        """What a completed job returned, as JSON, a piece at a time; `ConflictError` where it has not completed, `NotFoundError`
        where its result's time is over."""

    async def outputs(self, job: str) -> Sequence[d.OutputDocument]:
        """Its files; none before it has completed."""

    def output(self, job: str, name: str) -> AsyncGenerator[bytes, None]:
        """One of them, a piece at a time."""

    async def explain(self, job: str) -> d.Explanation: ...

    async def update(self, job: str, change: d.JobChange) -> d.JobDocument:
        """Change a job that waits; `ConflictError` where it does not, or where it began meanwhile."""

    async def cancel(self, job: str) -> str:
        """End it (`cancelled`), or ask it to stop (`requested`); `ended` where it was over before."""

    async def retry(self, job: str, change: d.JobChange) -> d.JobDocument:
        """Run a failed or cancelled job again from the start, with these changes; `ConflictError` where it is neither."""

    async def clone(self, job: str, variations: Sequence[d.Variation]) -> Sequence[d.Submitted]:
        """New jobs like this one, due now unless a variation says otherwise; keys are not copied."""

    async def bulk(self, request: d.BulkRequest) -> d.BulkAnswer: ...

    def events(self, job: str) -> AsyncGenerator[d.JobEvent, None]:
        """Its state now, then what happens to it, until it has ended."""

    def logs(
        self, job: str, *, attempt: int | None = None, after: str | None = None, follow: bool = False
    ) -> AsyncGenerator[d.LogPart, None]:
        """What its attempts wrote, or one of them, in order. `after`: go on behind that part. `follow`: as it comes, until the job
        (or that attempt) has ended and everything was read."""

    def partial(
        self, job: str, *, after: str | None = None, follow: bool = False
    ) -> AsyncGenerator[d.PartialResult, None]:
        """What its attempts gave out while they ran, in order. `after` and `follow`: as for `logs`."""


class Schedules(Protocol):
    """Stored schedules."""

    async def list(self) -> Sequence[d.ScheduleDocument]: ...

    async def read(self, name: str) -> d.ScheduleDocument: ...

    async def create(self, new: d.NewSchedule) -> d.ScheduleDocument:
        """`ConflictError` where there is one of that name."""

    async def delete(self, name: str) -> None: ...

    async def next(self, name: str, count: int = 10) -> Sequence[datetime]:
        """The next times, whether paused or not."""

    async def pause(self, name: str) -> None:
        """Nothing fires until `resume`; what would have fired meanwhile is gone."""

    async def resume(self, name: str) -> None:
        """Fire again from now on; the time of the pause is not caught up."""

    async def trigger(self, name: str, key: str | None = None) -> d.Submitted:
        """One job now, beside the rule's times. The overlap policy holds; but the same key again is the same job, whatever
        became of it."""

    async def backfill(self, name: str, first: datetime, last: datetime) -> int:
        """Make the jobs of past occurrences that have none; how many. Unless overlap is 'allow', one after the other."""

    async def missed(self, name: str, limit: int = 100) -> Sequence[d.MissedDocument]:
        """Newest first."""


class Templates(Protocol):
    """Jobs with holes. A version never changes; `current` points at the one in use."""

    async def list(self) -> Sequence[d.TemplateDocument]:
        """One's own and those shared with this tenant, the current version of each."""

    async def read(self, name: str, version: int | None = None, owner: str | None = None) -> d.TemplateDocument: ...

    async def versions(self, name: str) -> Sequence[d.TemplateDocument]:
        """Newest first."""

    async def put(self, name: str, definition: d.TemplateDefinition) -> d.TemplateDocument:
        """A new version, which is current from now on; the same definition again changes nothing."""

    async def rollback(self, name: str, version: int) -> d.TemplateDocument:
        """Use an earlier version (or a later one) from now on."""

    async def share(self, name: str, tenants: Sequence[str]) -> d.TemplateDocument:
        """Let exactly these tenants read it and submit from it; `"*"` is everybody."""

    async def delete(self, name: str) -> None: ...

    async def validate(self, definition: d.TemplateDefinition, values: dict[str, Any] | None = None) -> None:
        """`InvalidError` where the template, or the values if given, would be refused; nothing is stored."""

    async def submit(self, name: str, request: d.TemplateSubmit) -> d.Submitted: ...

    async def export(self) -> d.TemplateBundle:
        """The current version of one's own templates."""

    async def load(self, bundle: d.TemplateBundle) -> Sequence[d.TemplateDocument]:
        """Put all of them, or none where one is refused."""


class Queues(Protocol):
    async def list(self) -> Sequence[d.QueueDocument]: ...

    async def read(self, name: str) -> d.QueueDocument: ...

    async def pause(self, name: str) -> None:
        """Start no more jobs of a queue; those that run go on."""

    async def resume(self, name: str) -> None: ...


class Workers(Protocol):
    """Executing processes, as operators see them."""

    async def list(self) -> Sequence[d.WorkerDocument]: ...

    async def drain(self, worker: str) -> None:
        """Ask one, by the id of its session, to take nothing new, finish and leave."""

    async def remove(self, worker: str) -> None:
        """End its session at once: what it runs is lost to it and runs elsewhere."""


class Nodes(Protocol):
    async def list(self) -> Sequence[d.NodeDocument]: ...

    async def drain(self, names: Sequence[str]) -> Sequence[d.NodeDocument]:
        """Ask nodes, by name or by the start of an id, to leave; none is asked where one of the names is wrong."""

    async def remove(self, name: str) -> None:
        """End one that has stopped without leaving; `ConflictError` while its lease holds."""


class System(Protocol):
    async def version(self) -> d.Version: ...

    async def statistics(self) -> d.Statistics: ...

    async def history(self, since: datetime, until: datetime, step_s: float, kind: str | None = None) -> d.History: ...

    async def usage(
        self, since: datetime, until: datetime | None = None, by: d.UsageBy = "client,kind"
    ) -> d.UsageReport:
        """What jobs used that ended in that time (None: until now)."""

    async def declare(self, said: d.Declarations) -> list[str]:
        """Store what an application declares; the names of schedules that code declared once and this code does not."""

    def events(
        self, queue: str | None = None, after: str | None = None
    ) -> AsyncGenerator[tuple[str, d.JobEvent | None], None]:
        """Ended jobs with the id of each event, as they end. `after`: go on behind that event. None instead of an event says
        `reset`: what lies between is not known any more, list again. After a break an event may come twice."""


class Keys(Protocol):
    async def list(self) -> Sequence[d.KeyDocument]: ...

    async def create(self, new: d.NewKey) -> d.KeyDocument:
        """The answer holds the secret, which is not stored and never shown again."""

    async def revoke(self, key: str) -> None: ...

    async def join_token(self, name: str, expires_in: str | float = "1h") -> d.KeyDocument:
        """A token that enrols one worker, once."""


class Secrets(Protocol):
    """Values that jobs name and get; nobody reads one back. Without master keys on the side that works: `SecretsError`."""

    async def list(self) -> Sequence[d.SecretDocument]: ...

    async def set(self, name: str, value: str) -> d.SecretDocument:
        """Insert or replace; jobs that are handed over from now on get it."""

    async def delete(self, name: str) -> None: ...

    async def rotate(self, after: str | None = None) -> d.RotationStep:
        """Give the next part of all that is sealed, of whichever tenant, the current master key; `after`: the `next` of the
        step before. It may be repeated, and others may set, submit and settle meanwhile."""


class Tenants(Protocol):
    """For those who may act for all tenants."""

    async def list(self) -> Sequence[d.TenantDocument]: ...

    async def create(self, new: d.NewTenant) -> d.TenantDocument: ...

    async def set_quota(self, name: str, quota: d.Quota) -> d.TenantDocument: ...

    async def seal(self, name: str, sealed: bool) -> d.TenantDocument:
        """Store arguments and results of its jobs encrypted from now on, or not; what is stored stays as it is, and readable.
        `SecretsError` where nothing can be encrypted here."""

    async def erase(self, name: str) -> int:
        """Remove everything that belongs to a tenant, its keys first; how many jobs. Only the hashes of its audit chain stay."""


class Audit(Protocol):
    async def list(self, *, after: int = 0, limit: int = 100) -> Sequence[d.AuditDocument]:
        """Oldest first, behind a number."""

    async def verify(self) -> d.Verification: ...


class Verbs(Protocol):
    """All of them, for one tenant (or all) and one actor."""

    @property
    def jobs(self) -> Jobs: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def templates(self) -> Templates: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def workers(self) -> Workers: ...

    @property
    def nodes(self) -> Nodes: ...

    @property
    def system(self) -> System: ...

    @property
    def keys(self) -> Keys: ...

    @property
    def secrets(self) -> Secrets: ...

    @property
    def tenants(self) -> Tenants: ...

    @property
    def audit(self) -> Audit: ...
