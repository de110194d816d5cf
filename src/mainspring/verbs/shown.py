"""Stored records of jobs as documents."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Raw, json

from mainspring.core.job import JobRecord
from mainspring.core.partition import format_id
from mainspring.core.rank import Band
from mainspring.core.timer import Micros, from_micros
from mainspring.store.contract import AttemptFailure, Ended
from mainspring.verbs import documents as d
from mainspring.verbs.results import is_expired, outputs_of
from mainspring.wire import Progress

_read_usage = json.Decoder(d.Usage).decode


def summary_of(record: JobRecord) -> d.JobSummary:
    return d.JobSummary(
        id=format_id(record.id),
        kind=record.kind,
        queue=record.queue,
        tenant=record.tenant,
        state=record.state,
        reason=record.reason,
        priority=record.priority,
        attempt=record.attempt,
        failures=record.failures,
        created_at=from_micros(record.created_at),
        due_at=from_micros(record.due_at),
        started_at=_time(record.started_at),
        finished_at=_time(record.finished_at),
        tags=record.options.tags,
        schedule=record.options.schedule,
        cancel_requested=record.cancelling,
    )


def document_of(
    record: JobRecord, ended: Ended | None, failures: Sequence[AttemptFailure], progress: Progress | None, now: Micros
) -> d.JobDocument:
    options = record.options
    summary = summary_of(record)
    return d.JobDocument(
        **{name: getattr(summary, name) for name in summary.__struct_fields__},
        band=Band(record.band).name.lower(),
        losses=record.losses,
        retries=options.retries,
        backoff_s=options.backoff.base_s,
        timeout_s=options.timeout_s,
        deadline_at=_time(options.deadline_at),
        deadline_missed=record.missed_deadline,
        start_by=_time(options.start_by),
        key=options.key,
        limit_key=options.limit_key,
        secrets=options.secrets,
        client=options.client,
        complexity=options.complexity,
        labels=tuple(sorted(options.labels)),
        resources=options.resources,
        occurrence_at=_time(options.occurrence_at),
        progress=None if progress is None else progress_of(progress),
        arguments=Raw(record.arguments),
        result=_result(ended, now) if ended else d.NULL,
        errors=[_error(failure) for failure in failures],
        usage=_usage(record.usage),
        outputs=outputs_of(ended, now) if ended else [],
        expired=is_expired(ended, now) if ended else False,
    )


def progress_of(progress: Progress) -> d.Progress:
    return d.Progress(percent=progress.percent, message=progress.message, at=from_micros(progress.at))


def end_of(job: bytes, ended: Ended, now: Micros) -> d.EndDocument:
    failure = ended.failure
    return d.EndDocument(
        id=format_id(job),
        kind=ended.kind,
        state=ended.state,
        reason=ended.reason,
        result=_result(ended, now),
        error=None
        if failure is None
        else d.ErrorDocument(
            reason=failure.reason, type=failure.type, message=failure.message, traceback=failure.traceback
        ),
        outputs=outputs_of(ended, now),
        expired=is_expired(ended, now),
    )


def _error(failed: AttemptFailure) -> d.AttemptError:
    told = failed.failure
    return d.AttemptError(
        attempt=failed.attempt,
        at=from_micros(failed.at),
        reason=told.reason,
        type=told.type,
        message=told.message,
        traceback=told.traceback,
        usage=_usage(failed.usage),
    )


def _usage(data: bytes | None) -> d.Usage | None:
    return None if data is None else _read_usage(data)


def _time(at: Micros | None) -> datetime | None:
    return None if at is None else from_micros(at)


def _result(ended: Ended, now: Micros) -> Raw:
    return d.NULL if ended.result is None or is_expired(ended, now) else Raw(ended.result)
