"""The one table of states (I5)."""

import pytest

from mainspring.core.lifecycle import ENDED, LIVE, TRANSITIONS, WAITING, State, may


def test_i5_every_state_has_its_row_and_every_edge_leads_to_a_state() -> None:
    assert set(TRANSITIONS) == set(State)
    assert all(target in State for targets in TRANSITIONS.values() for target in targets)
    assert not any(source in targets for source, targets in TRANSITIONS.items())


def test_i5_each_state_is_waiting_live_or_ended() -> None:
    assert set(State) == WAITING | LIVE | ENDED
    assert len(WAITING) + len(LIVE) + len(ENDED) == len(State)


def test_i5_a_completed_job_stays_so_and_a_replay_is_the_only_way_back() -> None:
    assert TRANSITIONS[State.COMPLETED] == frozenset()
    assert TRANSITIONS[State.FAILED] == TRANSITIONS[State.CANCELLED] == {State.PENDING}


def test_i12_every_waiting_job_can_be_cancelled_and_every_live_one_can_end_in_every_way() -> None:
    assert all(may(state, State.CANCELLED) for state in WAITING)
    assert all(TRANSITIONS[state] >= ENDED | {State.PENDING} for state in LIVE)


def test_i4_a_job_runs_only_through_pending_and_assigned() -> None:
    assert [source for source in State if may(source, State.ASSIGNED)] == [State.PENDING]
    assert [source for source in State if may(source, State.RUNNING)] == [State.ASSIGNED]


@pytest.mark.parametrize("state", [state for state in State if state is not State.PENDING])
def test_every_state_is_reached_from_pending(state: State) -> None:
    seen, edge = {State.PENDING}, {State.PENDING}
    while edge:
        edge = {target for source in edge for target in TRANSITIONS[source]} - seen
        seen |= edge
    assert state in seen or state is State.BLOCKED  # a job is born blocked or pending
