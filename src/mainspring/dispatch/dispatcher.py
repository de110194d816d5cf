"""The dispatcher: read the order, match jobs with workers, assign, hand over.

While one assignment commits, the next is chosen and sent, and the event loop runs the jobs of those before. Everything it
remembers is an optimisation; the store's compare-and-set decides, and every memory is made anew at least every `RELIST_S`.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from msgspec import json

from mainspring.core.job import Options, Resources
from mainspring.core.timer import SECOND, Micros
from mainspring.dispatch.lanes import Lanes, LaneState, LimitKey
from mainspring.dispatch.matcher import Matcher, Seat
from mainspring.dispatch.outfitting import Outfitted, Outfitter
from mainspring.dispatch.ready import Choice, Window
from mainspring.runtime.clock import Clock
from mainspring.runtime.gauges import Gauges
from mainspring.store.contract import Assigned, Catalog, Dispatch, Hint, Pick, Ready, Spec, Stream
from mainspring.wire import Assignment, Outcome

RELIST_S = 10.0
LOST_RELIST_S = 0.2
ROUND = 512  # jobs in one assignment: while it commits, the jobs of the one before run
FLYING = 2  # assignments at once: a store far away answers late, and its cores should not wait for ours
STEAL_S = 1.0
_BANDS = range(3)
_NOTHING = Resources()
_OPTIONS_CACHE = 1024

Deliver = Callable[[bytes, list[Assignment]], None]
Return = Callable[[bytes, list[tuple[bytes, int]]], Awaitable[None]]
Settle = Callable[[bytes, Sequence[Outcome]], Awaitable[list[bytes]]]


class DispatchStore(Dispatch, Catalog, Protocol):
    """What the dispatcher needs of a store."""


class Dispatcher:
    """Owns the window, the lanes and the matcher of one node; see `run_once`."""

    name = "dispatcher"

    def __init__(
        self,
        store: DispatchStore,
        clock: Clock,
        partitions: int,
        gauges: Gauges,
        deliver: Deliver,
        return_unseen: Return,
        outfitter: Outfitter,
        settle: Settle,
    ) -> None:
        self.node: bytes | None = None  # set by the node when it has joined
        self.matcher = Matcher()
        self.lanes = Lanes()
        self._window = Window()
        self._store = store
        self._clock = clock
        self._gauges = gauges
        self._deliver = deliver
        self._return = return_unseen
        self._outfitter = outfitter
        self._settle = settle
        self._doubted: dict[bytes, list[tuple[bytes, int]]] = {}
        self._all = range(partitions)
        self._owned: frozenset[int] = frozenset()
        self._hinted: dict[Stream, Micros] = {}
        self._configured = False
        self._relist_at_s = 0.0
        self._idle = False  # workers have room, and there is nothing for them here
        self._steal_at_s = 0.0
        self._foreign: dict[
            Stream, tuple[Micros, float]
        ] = {}  # the head of others' streams, and since when it lies there
        self.closed = False
        self._budget: dict[LimitKey, int] = {}
        self._released = 0  # how often something that limits count has ended
        self._options: dict[bytes, Options] = {}
        self._flying: deque[tuple[asyncio.Task[None], set[bytes]]] = (
            deque()
        )  # with their jobs, which are still read as ready

    async def run_once(self) -> float | None:
        """One round: refresh what is known, choose, assign, hand over. 0 while there was something to do."""
        try:
            return await self._round()
        except BaseException:
            self._configured = False  # what was read in part is read anew
            self._relist_at_s = 0.0
            raise

    async def _round(self) -> float | None:
        now_s = time.monotonic()
        if self._doubted:
            await self._return_doubted()
        if not self._configured:
            await self._configure()
        if now_s >= self._relist_at_s:
            self._relist_at_s = now_s + RELIST_S
            await self._list_streams(now_s, self._all if self._idle else self._owned)
            self._reopen(state for state in self.lanes.known.values() if state.held_until == -1)
        await self._take_hints()
        capacity = self._capacity()
        if capacity:
            await self._read_wanted()
            chosen = self._choose(min(capacity, ROUND), now_s)
            if chosen:
                self._idle = False
                await self._launch(chosen)
                return 0
        if self._flying:
            await self._land()
            return 0
        self._idle = capacity > 0 and len(self._owned) < len(self._all)
        if self._idle and now_s >= self._steal_at_s:
            await self._list_streams(now_s, [p for p in self._all if p not in self._owned])
        return self._rest_s(now_s)

    async def landed(self) -> None:
        """When every assignment that was begun has been made, or has failed."""
        flying = [task for task, _ in self._flying]
        self._flying.clear()
        for answer in await asyncio.gather(*flying, return_exceptions=True):
            if answer is not None:
                raise answer

    def own(self, partitions: Iterable[int]) -> None:
        """The partitions this node reads first. Those it had are left to their new owner: two nodes that read the same streams
        lose most races for their jobs."""
        before, self._owned = self._owned, frozenset(partitions)
        self._leave(before - self._owned)
        self._relist_at_s = 0.0

    def _leave(self, partitions: frozenset[int]) -> None:
        for stream in [stream for stream in self._window.streams if stream[0] in partitions]:
            self._window.close(stream)
        self._hinted = _without(self._hinted, partitions)
        for state in self.lanes.known.values():
            state.parked = _without(state.parked, partitions)

    def close(self) -> None:
        """Assign nothing more: this node is about to leave."""
        self.closed = True

    def hear(self, hint: Hint) -> None:
        """A hint has come; the caller wakes the service."""
        if hint.topic == "ready":
            if not hint.streams:
                self._relist_at_s = 0.0
            self._see((p, b, lane, rank) for p, b, lane, rank in hint.streams if p in self._owned)
            self._see_foreign([stream for stream in hint.streams if stream[0] not in self._owned])
        elif hint.topic in ("queue", "tenant"):
            self._configured = False
        elif hint.topic == "settled":
            self._released += 1
            self._reopen(state for state in self.lanes.known.values() if state.held_until == -1)

    def workers_changed(self) -> None:
        """A worker came or went: lanes that nobody served may be served now, and the other way round."""
        self._configured = False

    def ended(self, lane: int, seat: Seat | None, count: int = 1) -> None:
        """Jobs of this lane are not live any more; what they needed is free again. `seat` None: their worker is gone."""
        state = self.lanes.known.get(lane)
        if state is None:
            return
        if seat is not None and state.lane.resources != _NOTHING:
            for _ in range(count):
                seat.give_back(state.lane.resources)
        if state.limits:
            self._released += 1
            self._reopen(self.lanes.ended(state, count))

    async def resume(self, seat: Seat, lanes: Sequence[int]) -> None:
        """Jobs of these lanes, one each, run on this seat already: a worker that had another node before."""
        unknown = {lane for lane in lanes if lane not in self.lanes.known}
        if unknown:
            self.lanes.learn(await self._store.read_lanes(sorted(unknown)))
        for lane in lanes:
            state = self.lanes.known.get(lane)
            if state is not None:
                seat.occupy(state.lane.resources)
                self.lanes.started(state)

    def _see(self, streams: Iterable[tuple[int, int, int, Micros]]) -> None:
        for partition, band, lane, rank in streams:
            key = (partition, band, lane)
            self._hinted[key] = min(rank, self._hinted.get(key, rank))

    def _see_foreign(self, streams: list[tuple[int, int, int, Micros]]) -> None:
        """Others' partitions have jobs: look in a while whether they still lie there."""
        if not streams:
            return
        now_s = time.monotonic()
        self._steal_at_s = min(self._steal_at_s, now_s + STEAL_S)
        if self._idle:  # who is busy looks when he is not any more, and counts from then
            for partition, band, lane, rank in streams:
                key = (partition, band, lane)
                if key not in self._foreign or rank < self._foreign[key][0]:
                    self._foreign[key] = (rank, now_s)

    def _capacity(self) -> int:
        return 0 if self.closed else self.matcher.capacity()

    async def _configure(self) -> None:
        """Pauses, limits and workers as they are now; every lane is looked at again."""
        self._configured = True
        self._steal_at_s = 0.0
        self.lanes.configure(await self._store.list_queues(), await self._store.list_limits())
        now = self._clock.now()
        for state in self.lanes.known.values():
            if self._may_read(state, now):
                self._reopen([state])
            else:
                self._close(state)

    async def _take_hints(self) -> None:
        """Streams with jobs go into the window, or are remembered with their closed lane."""
        if not self._hinted:
            return
        hinted, self._hinted = self._hinted, {}
        unknown = {lane for _, _, lane in hinted if lane not in self.lanes.known}
        if unknown:
            self.lanes.learn(await self._store.read_lanes(sorted(unknown)))
        now = self._clock.now()
        for stream, rank in hinted.items():
            state = self.lanes.known.get(stream[2])
            if state is None:
                continue
            if self._may_read(state, now):
                self._window.open(stream, state.lane.tenant, rank)
            else:
                state.park(stream, rank)

    def _may_read(self, state: LaneState, now: Micros) -> bool:
        return self.lanes.is_open(state, now) and self.matcher.serves(state.number, state.lane)

    async def _read_wanted(self) -> None:
        for state in self._due_lanes():
            self._reopen([state])
        await self._take_hints()
        wanted = self._window.wanted()
        if wanted:
            size = self._window.read_size()
            read = await self._store.read_ready(wanted, size)
            flying = frozenset[bytes]().union(*(jobs for _, jobs in self._flying))
            for (stream, _), jobs in zip(wanted, read, strict=True):
                self._window.fill(stream, jobs, size, flying)

    def _due_lanes(self) -> list[LaneState]:
        opening = self.lanes.next_opening()
        if opening is None or opening > self._clock.now():
            return []
        now = self._clock.now()
        return [s for s in self.lanes.known.values() if s.held_until is not None and 0 <= s.held_until <= now]

    def _choose(self, capacity: int, now_s: float) -> list[Choice]:
        self._budget.clear()
        known, place = self.lanes.known, self.matcher.place

        def session_for(number: int) -> bytes | None:
            state = known[number]
            if state.limits and not self._within_budget(state):
                return None
            session = place(number, state.lane, now_s)
            if session is not None and state.limits:
                self.lanes.started(state)
                for limit in state.limits:
                    self._budget[limit] -= 1
            return session

        return self._window.choose(capacity, session_for)

    def _within_budget(self, state: LaneState) -> bool:
        for limit in state.limits:
            room = self._budget.get(limit)
            if room is None:
                room = self._budget[limit] = self.lanes.room(limit)
            if room <= 0:
                return False
        return True

    async def _launch(self, chosen: list[Choice]) -> None:
        if len(self._flying) == FLYING:
            await self._land()
        self._flying.append((asyncio.create_task(self._assign(chosen)), {ready.job for _, _, ready in chosen}))
        await asyncio.sleep(0)  # it is sent before the next is chosen

    async def _land(self) -> None:
        """Wait for the assignment that was begun first."""
        task, _ = self._flying.popleft()
        await task

    async def _assign(self, chosen: list[Choice]) -> None:
        """Make the choices durable and hand over those that won. Where that fails, nobody has got any of them."""
        try:
            await self._try_assign(chosen)
        except BaseException:
            for session, stream, ready in chosen:
                self._give_back(session, stream)
                self._doubted.setdefault(session, []).append((ready.job, ready.attempt + 1))
            raise

    async def _return_doubted(self) -> None:
        """Jobs that may have been assigned although the store said that it failed, or could not say: no worker has them."""
        await asyncio.gather(*(task for task, _ in self._flying), return_exceptions=True)
        for session, attempts in tuple(self._doubted.items()):
            await self._return(session, attempts)
            del self._doubted[session]

    async def _try_assign(self, chosen: list[Choice]) -> None:
        picks = self._picks(chosen)
        released = self._released
        answers = await self._store.assign_jobs(picks)
        # By the whole entry: a job that moved in the order may have been chosen from two streams, and won from one.
        refused: dict[Ready, Assigned] = {}
        for answer in answers:
            refused.update((ready, answer) for ready in (*answer.lost, *answer.held))
        won = [choice for choice in chosen if choice[2] not in refused] if refused else chosen
        if won:
            await self._hand_over(won)
        if refused:
            self._take_back([choice for choice in chosen if choice[2] in refused], refused, released)

    def _picks(self, chosen: list[Choice]) -> list[Pick]:
        """One pick per session for all jobs without limits, and one per lane for those with."""
        groups: dict[tuple[bytes, int | None], list[Ready]] = {}
        known = self.lanes.known
        for session, stream, ready in chosen:
            lane = stream[2]
            groups.setdefault((session, lane if known[lane].limits else None), []).append(ready)
        return [
            Pick(session, jobs, known[lane].limits if lane is not None else (), self.node)
            for (session, lane), jobs in groups.items()
        ]

    async def _hand_over(self, won: list[Choice]) -> None:
        specs = {spec.job: spec for spec in await self._store.read_specs([ready.job for _, _, ready in won])}
        bare = {
            ready.job: self._assignment(stream, ready, spec)
            for _, stream, ready in won
            if (spec := specs.get(ready.job))
        }
        outfitted = await self._outfitter.outfit(list(bare.values()))
        if outfitted:
            await self._refuse(won, outfitted)
        batches: dict[bytes, list[Assignment]] = {}
        for session, stream, ready in won:
            assignment = outfitted.get(ready.job) or bare.get(ready.job)
            if isinstance(assignment, Assignment):
                batches.setdefault(session, []).append(assignment)
            else:  # refused, or its tenant was erased just now
                self._give_back(session, stream)
        self._gauges.assigned += len(won)
        for session, batch in batches.items():
            seat = self.matcher.seats.get(session)
            if seat is not None:
                seat.coming -= len(batch)
            self._deliver(session, batch)

    def _assignment(self, stream: Stream, ready: Ready, spec: Spec) -> Assignment:
        state = self.lanes.known[stream[2]]
        lane, options = state.lane, self._decoded(spec.options)
        return Assignment(
            *(ready.job, ready.attempt + 1, lane.tenant, lane.queue, lane.kind),
            *(spec.arguments, options, spec.failures, state.number),
        )

    async def _refuse(self, won: list[Choice], outfitted: dict[bytes, Outfitted]) -> None:
        """Settle those that cannot have what they need."""
        refused: dict[bytes, list[Outcome]] = {}
        for session, _, ready in won:
            outcome = outfitted.get(ready.job)
            if isinstance(outcome, Outcome):
                refused.setdefault(session, []).append(outcome)
        for session, outcomes in refused.items():
            await self._settle(session, outcomes)

    def _take_back(self, choices: list[Choice], refused: dict[Ready, Assigned], released: int) -> None:
        """Somebody else was first, or a limit holds the job back: its worker has room again, and the window a wrong idea.
        Where something was released since the limit was looked at, it is looked at again."""
        for session, stream, ready in choices:
            self._give_back(session, stream)
            state, answer = self.lanes.known[stream[2]], refused[ready]
            if answer.held:
                self._gauges.held += 1
                if answer.held_until is not None or released == self._released:
                    state.held_until = answer.held_until if answer.held_until is not None else -1
                    self._close(state)
                self._see([(*stream, ready.rank)])
            else:
                # Read again, but not at once: what lost now would lose again until the winner's commit is seen.
                self._gauges.lost += 1
                self._relist_at_s = min(self._relist_at_s, time.monotonic() + LOST_RELIST_S)

    def _give_back(self, session: bytes, stream: Stream) -> None:
        state, seat = self.lanes.known[stream[2]], self.matcher.seats.get(session)
        self.lanes.ended(state, 1)
        if seat is not None:
            seat.coming -= 1
            seat.slots += 1
            seat.give_back(state.lane.resources)

    def _close(self, state: LaneState) -> None:
        """Out of the window, into the lane's own memory."""
        for partition in self._all:
            for band in _BANDS:
                stream = (partition, band, state.number)
                if stream in self._window.streams:
                    self._window.close(stream)
                    state.park(stream, -(1 << 62))
        self.matcher.release(state.number)

    def _reopen(self, states: Iterable[LaneState]) -> None:
        for state in states:
            if state.held_until == -1 and any(self.lanes.room(limit) <= 0 for limit in state.limits):
                continue
            if state.held_until == -1:
                state.held_until = None
            parked, state.parked = state.parked, {}
            self._see((*stream, rank) for stream, rank in parked.items())

    async def _list_streams(self, now_s: float, partitions: Iterable[int]) -> None:
        """See every stream of these partitions. Of others' partitions, which are listed only when there is nothing to do here,
        take what has not moved for a while."""
        wanted = sorted(partitions)
        listed = await self._store.list_streams(wanted) if wanted else []
        self._see(stream for stream in listed if stream[0] in self._owned)
        if not self._owned.issuperset(wanted):
            self._compare({(p, b, lane): rank for p, b, lane, rank in listed if p not in self._owned}, now_s)

    def _compare(self, heads: dict[Stream, Micros], now_s: float) -> None:
        """Others' streams as they are now, with what was known of them."""
        known = self._foreign
        heard_since = {stream: head for stream, head in known.items() if head[1] > now_s}
        self._foreign = heard_since
        for stream, rank in heads.items():
            head = known.get(stream)
            self._foreign[stream] = head if head is not None and head[0] == rank else (rank, now_s)
        due_at_s = {stream: since_s + STEAL_S for stream, (_, since_s) in self._foreign.items()}
        self._see((*stream, self._foreign[stream][0]) for stream, at_s in due_at_s.items() if at_s <= now_s)
        self._steal_at_s = min((at_s for at_s in due_at_s.values() if at_s > now_s), default=float("inf"))

    def _rest_s(self, now_s: float) -> float:
        if self._hinted:
            return 0
        rest_s = self._relist_at_s - now_s
        opening = self.lanes.next_opening()
        if opening is not None:
            rest_s = min(rest_s, (opening - self._clock.now()) / SECOND)
        if self._idle:
            rest_s = min(rest_s, self._steal_at_s - now_s)
        return max(rest_s, 0.001)

    def _decoded(self, options: bytes) -> Options:
        """Jobs of one kind mostly have the same options, byte for byte."""
        known = self._options.get(options)
        if known is None:
            if len(self._options) >= _OPTIONS_CACHE:
                self._options.clear()
            known = self._options[options] = json.decode(options, type=Options)
        return known


def _without(streams: dict[Stream, Micros], partitions: frozenset[int]) -> dict[Stream, Micros]:
    return {stream: rank for stream, rank in streams.items() if stream[0] not in partitions}
