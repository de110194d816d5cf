"""The settler: what workers report becomes what is stored, a batch at a time.

Which state follows from an outcome is `verdict`, a pure function; the store applies it only if the attempt is still current.
"""

import random
from collections.abc import Sequence
from typing import Protocol

from msgspec import json, structs

from mainspring.core.job import JobRecord
from mainspring.core.lifecycle import Reason, State
from mainspring.core.timer import Micros, seconds
from mainspring.runtime.clock import Clock
from mainspring.runtime.gauges import Gauges
from mainspring.store.contract import Attempts, Jobs, Settlement
from mainspring.wire import Outcome, OutcomeType

_encode = json.Encoder().encode


class SettleStore(Attempts, Jobs, Protocol):
    """What the settler needs of a store."""


class Settler:
    """Turns the outcomes of one report into one store call."""

    def __init__(self, store: SettleStore, clock: Clock, gauges: Gauges) -> None:
        self._store = store
        self._clock = clock
        self._gauges = gauges

    async def settle(self, session: bytes, outcomes: Sequence[Outcome]) -> list[bytes]:
        """The jobs whose outcome was not accepted."""
        failed = [outcome.job for outcome in outcomes if outcome.type is OutcomeType.FAILED]
        records = dict(zip(failed, await self._store.read_jobs(failed), strict=True)) if failed else {}
        now = self._clock.now()
        settlements = [verdict(outcome, records.get(outcome.job), now, random.random()) for outcome in outcomes]
        accepted = await self._store.settle_attempts(session, settlements)
        rejected = [outcome.job for outcome, ok in zip(outcomes, accepted, strict=True) if not ok]
        self._gauges.settled += len(outcomes) - len(rejected)
        self._gauges.rejected += len(rejected)
        return rejected


def verdict(outcome: Outcome, record: JobRecord | None, now: Micros, random01: float) -> Settlement:
    """What shall become of a job whose attempt ended like this."""
    job, attempt = outcome.job, outcome.attempt
    usage = None if outcome.usage is None else _encode(outcome.usage)
    match outcome.type:
        case OutcomeType.COMPLETED:
            outputs = _encode(outcome.outputs) if outcome.outputs else None
            ended = Settlement(job, attempt, State.COMPLETED, outcome.result, usage=usage, outputs=outputs)
            if outcome.result_ttl_s is None:
                return ended
            return structs.replace(ended, expires_at=now + seconds(outcome.result_ttl_s))
        case OutcomeType.CANCELLED:
            reason = outcome.reason or Reason.REQUESTED
            return Settlement(job, attempt, State.CANCELLED, failure=outcome.failure, reason=reason, usage=usage)
        case OutcomeType.SNOOZED | OutcomeType.RETURNED:
            return Settlement(job, attempt, State.PENDING, due_at=outcome.until, usage=usage)
        case OutcomeType.FAILED:
            return _after_failure(outcome, record, now, random01, usage)


def _after_failure(
    outcome: Outcome, record: JobRecord | None, now: Micros, random01: float, usage: bytes | None
) -> Settlement:
    ended = Settlement(
        outcome.job, outcome.attempt, State.PENDING, failure=outcome.failure, counts="failure", usage=usage
    )
    failures = record.failures + 1 if record else 1
    if record is None or not outcome.retry or failures > record.options.retries:
        reason = outcome.failure.reason if outcome.failure else Reason.ERROR
        return structs.replace(ended, state=State.FAILED, reason=reason)
    wait_s = outcome.retry_after_s
    if wait_s is None:
        wait_s = record.options.backoff.delay_s(failures, random01)
    return structs.replace(ended, due_at=now + seconds(wait_s))
