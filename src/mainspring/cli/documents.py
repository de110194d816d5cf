"""What machines read: jobs, schedules and queues as JSON documents.

Every `--json` output is made of these. Guarantees: ids are UUIDs, times are ISO 8601 in UTC, durations are seconds (`_s`);
arguments and results are the stored JSON, byte for byte.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Raw, to_builtins

from mainspring.app.schedules import ScheduleStatus
from mainspring.core.job import JobRecord, Limit
from mainspring.core.occurrence import Missed
from mainspring.core.partition import format_id
from mainspring.core.rank import Band
from mainspring.core.timer import Micros, from_micros
from mainspring.store.contract import AttemptFailure, Ended

Document = dict[str, Any]


def time(at: Micros | None) -> datetime | None:
    return None if at is None else from_micros(at)


def raw(data: bytes | None) -> Raw | None:
    """Stored JSON inside a document."""
    return None if data is None else Raw(data)


def job_summary(record: JobRecord) -> Document:
    """What a listing shows of a job."""
    return {
        "id": format_id(record.id),
        "kind": record.kind,
        "queue": record.queue,
        "tenant": record.tenant,
        "state": record.state,
        "reason": record.reason,
        "priority": record.priority,
        "attempt": record.attempt,
        "failures": record.failures,
        "created_at": time(record.created_at),
        "due_at": time(record.due_at),
        "started_at": time(record.started_at),
        "finished_at": time(record.finished_at),
        "tags": record.options.tags,
        "schedule": record.options.schedule,
    }


def job_document(record: JobRecord, ended: Ended | None, failures: Sequence[AttemptFailure]) -> Document:
    """Everything that is known of a job."""
    options = record.options
    return job_summary(record) | {
        "band": Band(record.band).name.lower(),
        "losses": record.losses,
        "cancel_requested": record.cancelling,
        "retries": options.retries,
        "backoff_s": options.backoff.base_s,
        "timeout_s": options.timeout_s,
        "deadline_at": time(options.deadline_at),
        "deadline_missed": record.missed_deadline,
        "start_by": time(options.start_by),
        "key": options.key,
        "limit_key": options.limit_key,
        "client": options.client,
        "complexity": options.complexity,
        "labels": sorted(options.labels),
        "resources": to_builtins(options.resources),
        "occurrence_at": time(options.occurrence_at),
        "arguments": Raw(record.arguments),
        "result": raw(ended.result) if ended else None,
        "errors": [failure_document(failure) for failure in failures],
    }


def failure_document(failed: AttemptFailure) -> Document:
    return {"attempt": failed.attempt, "at": time(failed.at), **to_builtins(failed.failure)}


def end_document(job: bytes, ended: Ended) -> Document:
    """How a job ended, for those who waited."""
    return {
        "id": format_id(job),
        "state": ended.state,
        "reason": ended.reason,
        "result": raw(ended.result),
        "error": None if ended.failure is None else to_builtins(ended.failure),
    }


def schedule_document(schedule: ScheduleStatus) -> Document:
    return {
        "name": schedule.name,
        "tenant": schedule.tenant,
        "kind": schedule.kind,
        "cron": schedule.rule.cron,
        "tz": schedule.rule.tz,
        "rule": to_builtins(schedule.rule),
        "arguments": Raw(schedule.arguments.encode()),
        "origin": schedule.origin,
        "paused": schedule.paused,
        "runs": schedule.runs,
        "active": schedule.active,
        "last_at": schedule.last_at,
        "next_at": schedule.next_at,
    }


def missed_document(missed: Missed) -> Document:
    return {
        "first_at": missed.first,
        "last_at": missed.last,
        "count": missed.count,
        "reason": missed.reason,
    }


def limit_document(limit: Limit) -> Document:
    """A rate as people wrote it is `burst` starts in `burst / rate` seconds."""
    return {"concurrency": limit.concurrency, "rate_per_s": limit.rate, "burst": limit.burst if limit.rate else None}
