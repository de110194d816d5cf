"""What an application declares, as a document and back: for applications that declare it to a server. Pure."""

import math
from collections.abc import Sequence

from msgspec import json

from mainspring.core.job import DEFAULT_TENANT, Limit
from mainspring.core.jsontext import check_object, encode_object
from mainspring.core.options import check_name, check_tenant, refuse_once, tenant_of, whole_number
from mainspring.core.options_json import options_document, read_options
from mainspring.core.schedule import read_rule, rule_document
from mainspring.errors import InvalidError
from mainspring.execute.types.catalogue import checked, refuse_reserved
from mainspring.store.contract import QueueRecord
from mainspring.sweep.ticker import Definition
from mainspring.verbs import documents as d
from mainspring.verbs.declaring import ONE_JOB, DeclaredKind, DeclaredSchedule
from mainspring.verbs.drafts import for_tenant
from mainspring.verbs.queues import limit_of

MAX_DECLARED = 10_000
_MOST = 1_000_000_000

Said = tuple[list[DeclaredKind], list[QueueRecord], list[DeclaredSchedule]]


def declarations_of(
    kinds: Sequence[DeclaredKind], queues: Sequence[QueueRecord], schedules: Sequence[DeclaredSchedule]
) -> d.Declarations:
    """What `read_declarations` reads back."""
    return d.Declarations(
        kinds=[
            d.KindDeclaration(name=kind.name, options=options_document(kind.options), limit=limit_of(kind.limit))
            for kind in kinds
        ],
        queues=[d.QueueDeclaration(name=q.name, limit=limit_of(q.limit), tenant=_said(q.tenant)) for q in queues],
        schedules=[
            d.NewSchedule(
                name=schedule.name,
                kind=schedule.definition.kind,
                rule=rule_document(schedule.definition.rule),
                arguments=json.decode(schedule.definition.arguments),
                options=options_document(schedule.definition.options),
            )
            for schedule in schedules
        ],
    )


def _said(tenant: str) -> str | None:
    return None if tenant == DEFAULT_TENANT else tenant


def read_declarations(said: d.Declarations, tenant: str | None) -> Said:
    """Checked, for one tenant or for those that they name."""
    if len(said.kinds) + len(said.queues) + len(said.schedules) > MAX_DECLARED:
        raise InvalidError("declarations", f"are too many: {MAX_DECLARED:,} are allowed")
    return (
        [_kind(kind) for kind in said.kinds],
        [_queue(queue, tenant) for queue in said.queues],
        [_schedule(schedule, tenant) for schedule in said.schedules],
    )


def _kind(kind: d.KindDeclaration) -> DeclaredKind:
    refuse_reserved("kind", kind.name)
    check_object("options", kind.options)
    options = read_options(kind.options)
    refuse_once(options, "belongs to one submit", unique=True)
    return DeclaredKind(check_name("kind", kind.name), options, read_limit(kind.limit))


def _queue(queue: d.QueueDeclaration, tenant: str | None) -> QueueRecord:
    if tenant is not None and queue.tenant not in (None, tenant):
        raise InvalidError("tenant", f"is {queue.tenant!r}, and this is asked for {tenant!r}: leave it out")
    whose = check_tenant("tenant", queue.tenant or tenant or DEFAULT_TENANT)
    return QueueRecord(whose, check_name("queue", queue.name), False, read_limit(queue.limit))


def _schedule(schedule: d.NewSchedule, tenant: str | None) -> DeclaredSchedule:
    check_object("options", schedule.options)
    options = for_tenant(read_options(schedule.options), tenant)
    refuse_once(options, ONE_JOB, unique=True)
    arguments = checked(schedule.kind, encode_object("arguments", schedule.arguments)).decode()
    definition = Definition(read_rule(schedule.rule), check_name("kind", schedule.kind), arguments, options)
    return DeclaredSchedule(tenant_of(options), check_name("name", schedule.name), definition)


def read_limit(limit: d.LimitDocument | None) -> Limit:
    if limit is None:
        return Limit()
    if limit.concurrency is not None:
        whole_number("concurrency", limit.concurrency, 1, _MOST)
    if limit.rate_per_s is None:
        return Limit(limit.concurrency)
    if not math.isfinite(limit.rate_per_s) or not 0 < limit.rate_per_s <= _MOST:
        raise InvalidError("rate_per_s", f"expected a number above 0, up to {_MOST:,}, got {limit.rate_per_s!r}")
    burst = 1 if limit.burst is None else whole_number("burst", limit.burst, 1, _MOST)
    return Limit(limit.concurrency, limit.rate_per_s, burst)
