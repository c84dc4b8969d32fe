"""Who goes first: urgent before patient, early before late, and nobody waits for ever."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.rank import AGEING_STEP, DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT, priority, rank
from rota.model.times import LATEST, MINUTE

moments = st.integers(0, LATEST)
priorities = st.integers(MOST_URGENT, LEAST_URGENT)
steps = st.integers(1, 60 * MINUTE)


@given(moments, steps, priorities, st.integers(1, LATEST))
def test_nobody_waits_behind_what_came_more_than_nine_steps_later(due: int, step: int, rival: int, later: int) -> None:
    patient = rank(due, LEAST_URGENT, step)
    assert patient < rank(due + LEAST_URGENT * step + later, rival, step)


@given(moments, steps)
def test_the_bound_is_exact(due: int, step: int) -> None:
    patient = rank(due, LEAST_URGENT, step)
    assert patient == rank(due + 9 * step, MOST_URGENT, step)
    assert patient > rank(due + 9 * step - 1, MOST_URGENT, step), "until then the urgent one goes first"


@given(moments, priorities, priorities, steps)
def test_of_two_that_are_due_together_the_more_urgent_goes_first(due: int, one: int, other: int, step: int) -> None:
    assert (rank(due, one, step) < rank(due, other, step)) == (one < other)


@given(moments, moments, priorities, steps)
def test_of_two_as_urgent_the_earlier_goes_first(one: int, other: int, urgency: int, step: int) -> None:
    assert (rank(one, urgency, step) < rank(other, urgency, step)) == (one < other)


@given(moments, moments, priorities, priorities)
def test_a_step_of_nothing_means_first_come_first_served(one: int, other: int, here: int, there: int) -> None:
    assert (rank(one, here, 0) < rank(other, there, 0)) == (one < other)


@given(moments, priorities)
def test_a_rank_fits_into_the_column_of_every_store(due: int, urgency: int) -> None:
    assert 0 <= rank(due, urgency) < 2**63


def test_the_default_step_is_the_documented_minute() -> None:
    assert AGEING_STEP == MINUTE
    assert rank(0, 1) == MINUTE
    assert MOST_URGENT < DEFAULT_PRIORITY < LEAST_URGENT


@given(st.integers(1, 5), st.integers(0, 30))
def test_a_patient_job_is_served_through_a_flood_of_urgent_ones(rivals: int, arrived: int) -> None:
    """One job is served per tick and every tick brings `rivals` urgent ones: the backlog never shrinks."""
    tick = AGEING_STEP // 6
    patient = (rank(arrived * tick, LEAST_URGENT), "patient")
    ready: list[tuple[int, str]] = []
    served: list[tuple[int, str]] = []
    for now in range(1_000):
        ready += [(rank(now * tick, MOST_URGENT), "rival")] * rivals
        if now == arrived:
            ready.append(patient)
        heapq.heapify(ready)
        served.append(heapq.heappop(ready))
        if served[-1] is patient:
            break
    assert served[-1] is patient, "it starved"
    assert max(served[:-1], default=patient)[0] <= (arrived * tick) + 9 * AGEING_STEP
    assert len(served) <= (arrived + 9 * 6) * rivals + 1


@pytest.mark.parametrize("given", range(10))
def test_priorities_from_0_to_9_are_taken(given: int) -> None:
    assert priority(given) == given


@pytest.mark.parametrize(
    "given",
    [-1, 10, 2**70, True, False, 5.0, float("nan"), "5", "", "high", None, b"5", [5]],
)
def test_every_other_priority_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match=r"^priority: .* a whole number from 0 \(most urgent\) to 9") as caught:
        priority(given)
    assert caught.value.given is given


@given(st.integers().filter(lambda number: not 0 <= number <= 9))
def test_no_number_beyond_the_range_is_taken(given: int) -> None:
    with pytest.raises(InvalidInput):
        priority(given)
