"""The table of steps as a whole: every state with every event, and what docs/lifecycle.md says of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import IllegalEvent, RotaError
from rota.model.lifecycle import INITIAL, LIVE, OWNERS, STEPS, TERMINAL, JobEvent, State, diagram, sources, step

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"
EVERY = list(itertools.product(State, JobEvent))
BY_A_PERSON = {JobEvent.REPLAY, JobEvent.RERUN, JobEvent.REOPEN}


def reachable(start: Iterable[State], without: frozenset[JobEvent] = frozenset()) -> set[State]:
    found = set(start)
    while more := {to for (at, event), to in STEPS.items() if at in found and event not in without} - found:
        found |= more
    return found


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below this heading of the page, without its own two top lines."""
    section = PAGE.read_text("utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


@pytest.mark.parametrize(("state", "event"), EVERY)
def test_a_step_is_legal_exactly_if_the_table_has_it(state: State, event: JobEvent) -> None:
    if (state, event) in STEPS:
        assert step(state, event) is STEPS[state, event]
    else:
        with pytest.raises(IllegalEvent) as caught:
            step(state, event)
        assert (caught.value.state, caught.value.event) == (state, event)


@pytest.mark.parametrize(("state", "event"), EVERY)
def test_sources_agree_with_steps(state: State, event: JobEvent) -> None:
    assert (state in sources(event)) == ((state, event) in STEPS)


def test_illegal_events_change_nothing_and_are_told_in_plain_words() -> None:
    before = dict(STEPS)
    for state, event in EVERY:
        if (state, event) not in STEPS:
            with pytest.raises(RotaError, match=f"^a job that is {state} can't {event.replace('_', ' ')}$"):
                step(state, event)
    assert before == STEPS


def test_the_table_holds_only_states_and_events() -> None:
    for (source, event), target in STEPS.items():
        assert (type(source), type(event), type(target)) == (State, JobEvent, State)
        assert source is not target, "an event that moves nothing is no step"


@pytest.mark.parametrize("event", JobEvent)
def test_every_event_is_used(event: JobEvent) -> None:
    assert sources(event)


def test_states_are_live_or_terminal_and_never_both() -> None:
    assert frozenset(State) == LIVE | TERMINAL
    assert not LIVE & TERMINAL
    assert INITIAL < LIVE
    assert State.RUNNING not in INITIAL


@pytest.mark.parametrize("state", sorted(LIVE))
def test_every_live_state_leads_to_every_way_a_job_may_end(state: State) -> None:
    no_help = frozenset(BY_A_PERSON)
    assert reachable([state], without=no_help) & TERMINAL == TERMINAL


@pytest.mark.parametrize("state", State)
def test_every_state_can_be_reached_by_a_new_job(state: State) -> None:
    assert state in reachable(INITIAL, without=frozenset(BY_A_PERSON))


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_terminal_states_are_left_only_by_replay_rerun_and_reopen(state: State) -> None:
    replayed = state in (State.FAILED, State.CANCELLED)
    ways_out = {event for source, event in STEPS if source is state}
    assert ways_out == (BY_A_PERSON if replayed else BY_A_PERSON - {JobEvent.REPLAY})
    assert step(state, JobEvent.RERUN) is State.SCHEDULED
    assert step(state, JobEvent.REOPEN) is State.BLOCKED, "it waits for its parents again"
    if replayed:
        assert step(state, JobEvent.REPLAY) is State.SCHEDULED


@pytest.mark.parametrize("event", sorted(BY_A_PERSON))
def test_what_is_live_is_not_run_again(event: JobEvent) -> None:
    assert sources(event) <= TERMINAL


def test_a_replay_alone_never_repeats_what_was_done_skipped_or_dropped() -> None:
    assert sources(JobEvent.REPLAY) == {State.FAILED, State.CANCELLED}
    assert sources(JobEvent.RERUN) == sources(JobEvent.REOPEN) == TERMINAL


def test_only_a_claim_makes_a_job_run_and_only_what_is_ready_is_claimed() -> None:
    assert {event for (_, event), target in STEPS.items() if target is State.RUNNING} == {JobEvent.CLAIM}
    assert sources(JobEvent.CLAIM) == {State.READY}


def test_only_a_running_attempt_succeeds() -> None:
    assert [at for at, to in STEPS.items() if to is State.SUCCEEDED] == [(State.RUNNING, JobEvent.SUCCEED)]


def test_what_waits_for_its_parents_leaves_only_for_them_or_for_good() -> None:
    ways_out = {event for source, event in STEPS if source is State.BLOCKED}
    by_parents = {JobEvent.RELEASE, JobEvent.DEFER, JobEvent.HOLD, JobEvent.SKIP}
    assert by_parents <= ways_out
    assert all(step(State.BLOCKED, event) in TERMINAL for event in ways_out - by_parents)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_person_can_cancel_whatever_has_not_ended(state: State) -> None:
    assert step(state, JobEvent.CANCEL) is State.CANCELLED


def test_a_started_job_neither_expires_nor_is_dropped() -> None:
    assert sources(JobEvent.EXPIRE) == sources(JobEvent.DROP) == INITIAL


@given(st.sampled_from(sorted(INITIAL)), st.lists(st.sampled_from(JobEvent), max_size=200))
def test_no_walk_through_the_table_leaves_the_end_unasked(start: State, events: list[JobEvent]) -> None:
    state = start
    for event in events:
        try:
            after = step(state, event)
        except IllegalEvent:
            continue
        if state in TERMINAL:
            assert event in BY_A_PERSON
        if after is State.RUNNING:
            assert state is State.READY
        state = after
    assert state in OWNERS


def test_every_state_has_an_owner_and_nothing_else_has() -> None:
    assert set(OWNERS) == set(State)
    assert all(owner.strip() == owner and owner for owner in OWNERS.values())


def test_no_two_shelves_of_live_jobs_share_an_owner() -> None:
    assert len({OWNERS[state] for state in LIVE}) == len(LIVE)


def test_the_diagram_has_one_arrow_for_every_step_and_no_other() -> None:
    head, *lines = diagram().splitlines()
    assert head == "stateDiagram-v2"
    arrows = {f"    {source} --> {target}: {event}" for (source, event), target in STEPS.items()}
    ends = {f"    [*] --> {state}" for state in INITIAL} | {f"    {state} --> [*]" for state in TERMINAL}
    assert set(lines) == arrows | ends
    assert len(lines) == len(STEPS) + len(INITIAL) + len(TERMINAL)


def test_the_page_shows_exactly_this_diagram() -> None:
    blocks = re.findall(r"^```mermaid\n(.*?)\n```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks == [diagram()]


def test_the_page_lists_every_state_with_its_owner() -> None:
    table = rows("States")
    assert [(words(state), owner) for state, _, owner in table] == [([state], OWNERS[state]) for state in State]
    assert all(waits_for for _, waits_for, _ in table)


def test_the_page_explains_every_event_and_says_where_it_leads() -> None:
    table = rows("Events")
    assert [words(event) for event, *_ in table] == [[event] for event in JobEvent]
    for event, meaning, before, after in table:
        known = JobEvent(words(event)[0])
        assert len(meaning.split()) >= 3, f"{known} needs a sentence"
        assert words(before) == [state for state in State if state in sources(known)]
        assert words(after) == [state for state in State if state in {step(at, known) for at in sources(known)}]


def test_the_page_names_no_state_or_event_that_does_not_exist() -> None:
    cells = [cell for heading in ("States", "Events") for row in rows(heading) for cell in (row[0], *row[2:])]
    assert {word for cell in cells for word in words(cell)} <= {*State, *JobEvent}
