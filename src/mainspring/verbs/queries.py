"""Which jobs somebody means: a `JobQuery`, checked."""

from mainspring.core.job import DEFAULT_TENANT
from mainspring.core.lifecycle import State
from mainspring.core.partition import parse_id
from mainspring.errors import InvalidError
from mainspring.store.contract import JobFilter
from mainspring.verbs import documents as d


def filter_of(which: d.JobQuery, tenant: str | None) -> JobFilter:
    """The store's filter; a schedule is told by its name alone, within its tenant."""
    if which.state is not None and which.state not in set(State):
        raise InvalidError("state", f"{which.state[:80]!r} is none of {', '.join(State)}")
    schedule = None if which.schedule is None else f"{tenant or DEFAULT_TENANT}/{which.schedule}"
    return JobFilter(
        tenant=tenant, state=which.state, queue=which.queue, kind=which.kind, tag=which.tag, schedule=schedule
    )


def parse_ids(which: d.JobQuery, most: int) -> list[bytes]:
    """The jobs that a query names one by one."""
    given = which.ids or []
    if which != d.JobQuery(ids=which.ids):
        raise InvalidError("ids", "names the jobs one by one: leave the other filters out")
    if len(given) > most:
        raise InvalidError("ids", f"has {len(given)} entries; at most {most} are allowed")
    return list(dict.fromkeys(parse_id(text) for text in given))
