"""What a person wants to be different about a job, as a `Change` that the store makes or refuses. Pure.

Also how a job's own options are said again, for jobs that shall be like it.
"""

from typing import Any

from msgspec import UNSET, Raw, json, structs

from mainspring.core.draft import checked_time
from mainspring.core.job import JobRecord, Options
from mainspring.core.jsontext import encode_object
from mainspring.core.lane import Lane, rounded
from mainspring.core.options import JobOptions, Moment, parse_options
from mainspring.core.timer import SECOND, Micros, from_micros
from mainspring.errors import InvalidError
from mainspring.execute.types.catalogue import checked as checked_arguments
from mainspring.store.contract import Change
from mainspring.verbs import documents as d

_NEEDS = ("cpu", "memory_mb", "gpu")


def change_of(record: JobRecord, wanted: d.JobChange, now: Micros, *, replay: bool) -> Change:
    """Conditional on the attempt that was read: a job that began meanwhile is another matter."""
    said = said_in(wanted)
    if not said and not replay:
        raise InvalidError("change", f"says nothing; there are {', '.join(wanted.__struct_fields__)}")
    checked = parse_options(**{name: value for name, value in said.items() if name != "arguments"})
    options = _with_needs(record, checked, said)
    return Change(
        record.id,
        replay=replay,
        attempt=record.attempt,
        arguments=_arguments(record.kind, said["arguments"]) if "arguments" in said else None,
        due_at=None if checked.due is UNSET else checked_time("at", checked.due.resolve(now)),
        priority=None if checked.priority is UNSET else checked.priority,
        options=None if options is None else json.encode(options),
        lane=None if options is None else _lane(record, options),
    )


def _arguments(kind: str, values: dict[str, Any]) -> bytes:
    return checked_arguments(kind, encode_object("arguments", values))


def said_in(wanted: d.JobChange) -> dict[str, Any]:
    return {name: value for name in wanted.__struct_fields__ if (value := getattr(wanted, name)) is not UNSET}


def shown_before(record: JobRecord, said: dict[str, Any]) -> dict[str, Any]:
    """What the changed parts were, for the audit record."""
    was = {
        "arguments": Raw(record.arguments),
        "at": from_micros(record.due_at),
        "priority": record.priority,
        **structs.asdict(record.options.resources),
    }
    names = {"at" if name == "delay" else name for name in said}
    return {"state": record.state} | {name: was[name] for name in was if name in names}


def _with_needs(record: JobRecord, checked: JobOptions, said: dict[str, Any]) -> Options | None:
    """The job's options with other needs; None where they stay."""
    if checked.resources is UNSET:
        return None
    changed = {name: getattr(checked.resources, name) for name in _NEEDS if name in said}
    return structs.replace(record.options, resources=structs.replace(record.options.resources, **changed))


def _lane(record: JobRecord, options: Options) -> Lane:
    needs = rounded(options.resources)
    return Lane(record.tenant, record.queue, record.kind, needs, options.labels, options.limit_key)


def options_like(record: JobRecord) -> JobOptions:
    """What somebody would say who wanted such a job now. Its key is its own; times count from the submit on."""
    options = record.options
    return JobOptions(
        queue=record.queue,
        tenant=record.tenant,
        client=UNSET if options.client is None else options.client,
        priority=record.priority,
        complexity=options.complexity,
        retries=options.retries,
        backoff=options.backoff,
        timeout_s=UNSET if options.timeout_s is None else options.timeout_s,
        deadline=_later(record, options.deadline_at),
        start_by=_later(record, options.start_by),
        result_ttl_s=UNSET if options.result_ttl_s is None else options.result_ttl_s,
        limit_key=UNSET if options.limit_key is None else options.limit_key,
        secrets=options.secrets or UNSET,
        tags=options.tags,
        labels=options.labels,
        resources=options.resources,
    )


def _later(record: JobRecord, at: Micros | None) -> Any:
    return UNSET if at is None else Moment(after_s=max(0, at - record.created_at) / SECOND)
