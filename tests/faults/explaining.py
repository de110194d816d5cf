"""Which repeated runs a fault explains: only where the run before was really cut off.

Its process was killed or told to stop after the run had begun and before the job ran again; or it was frozen for longer than a
lease; or its node was given up after it had been silent to the store for a whole lease in which the store could be reached.
Anything else is a run too many.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from faults.effects import Effect
from faults.harness import Site
from faults.soaking import Fault
from mainspring.core.partition import format_id
from mainspring.core.timer import seconds

_NOTICED_S = 0.3  # processes write down their own times; a signal takes a moment to arrive


class Silence(Struct):
    """A node that others have given up: its last sign of life, and its end."""

    pid: int
    renewed_s: float
    ended_s: float


class Repeats(Struct):
    """Runs that were followed by another one of the same job: how many each reason explains, and those that none does."""

    explained: dict[str, int]
    unexplained: list[tuple[Effect, Effect]]


def explain(site: Site, faults: list[Fault], lease_s: float) -> Repeats:
    silences = _silences(site, lease_s)
    failures = {format_id(id_): count for id_, count in site.rows("select id, failures from job where failures > 0")}
    explained: dict[str, int] = defaultdict(int)
    unexplained: list[tuple[Effect, Effect]] = []
    for job, runs in _by_job(site.effects()).items():
        unknown = []
        for run, after in pairwise(runs):
            reason = _reason(run, after, faults, silences, lease_s)
            if reason is None:
                unknown.append((run, after))
            else:
                explained[reason] += 1
        failed = failures.get(job, 0)  # a run that failed and said so is followed by another one
        explained["failure"] += min(failed, len(unknown))
        unexplained += unknown[failed:]
    return Repeats({reason: count for reason, count in explained.items() if count}, unexplained)


def _by_job(effects: Iterable[Effect]) -> dict[str, list[Effect]]:
    runs: dict[str, list[Effect]] = defaultdict(list)
    for effect in sorted(effects, key=lambda effect: effect.attempt):
        runs[effect.job].append(effect)
    return runs


def _reason(run: Effect, after: Effect, faults: list[Fault], silences: list[Silence], lease_s: float) -> str | None:
    for fault in faults:
        if fault.pid == run.pid and fault.began_s <= after.at_s + _NOTICED_S:
            if fault.kind in ("kill", "stop") and run.at_s <= fault.ended_s + _NOTICED_S:
                return fault.kind
            # It may begin, after it went on, what it had been given before.
            is_long = fault.ended_s - fault.began_s > lease_s - _NOTICED_S
            if fault.kind == "freeze" and is_long and run.at_s <= fault.ended_s + lease_s:
                return "freeze"
    shared = [fault for fault in faults if fault.pid == 0]
    for silence in silences:
        between = run.at_s <= silence.ended_s + lease_s and silence.ended_s <= after.at_s + _NOTICED_S
        if silence.pid == run.pid and between and _up_s(silence, shared) >= lease_s - _NOTICED_S:
            return "silence"
    return None


def _up_s(silence: Silence, shared: list[Fault]) -> float:
    """How long the store could be reached while a node was silent."""
    away_s = sum(
        max(0.0, min(fault.ended_s, silence.ended_s) - max(fault.began_s, silence.renewed_s)) for fault in shared
    )
    return silence.ended_s - silence.renewed_s - away_s


def _silences(site: Site, lease_s: float) -> list[Silence]:
    """From the nodes' own records, in the time of this machine, which is also the server's."""
    booted_us = (time.time() - time.monotonic()) * 1e6
    rows = site.rows("select name, lease_until, ended_at from node where ended_at is not null")
    return [
        Silence(
            int(name.rpartition("-")[2]),
            (lease_until - seconds(lease_s) - booted_us) / 1e6,
            (ended_at - booted_us) / 1e6,
        )
        for name, lease_until, ended_at in rows
        if ended_at >= lease_until
    ]
