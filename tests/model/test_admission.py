"""Which jobs a claim starts, and what becomes of the others, without a store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rota.model.admission import (
    WAITS_ALONE,
    AloneStep,
    Candidate,
    ClaimAdmission,
    Ended,
    Held,
    Replacing,
    Slot,
    alone_step,
)
from rota.model.gates import ClosedGate, Effect, Match, Subject
from rota.model.keys import KeyState, Reservation
from rota.model.lifecycle import State
from rota.model.limits import KEPT_STARTS, Key, Policy, Rate, slack
from rota.model.requirements import Alone, Requirements
from rota.model.times import HOUR, MINUTE, SECOND

NOW = 1_000 * HOUR


def job(name: str, *keys: Key, rank: int = NOW, alone: Alone | None = None, **more: object) -> Candidate:
    requirements = Requirements(keys=keys, alone=alone)
    values = {"own_step": None, "interruptions": 0, **more}
    return Candidate(name, Subject("eve", "t", "q"), requirements, 0, rank, **values)  # type: ignore[arg-type]


def admitted(
    *candidates: Candidate, gates: Sequence[ClosedGate] = (), running: Sequence[str] = (), **held: Sequence[int]
) -> ClaimAdmission:
    """`held`: numbers of the places of keys that are taken."""
    states = {
        ("eve", key): KeyState(None, held.get(key, ())) for one in candidates for key in (k.name for k in one.keys)
    }
    for one in candidates:
        for key in one.keys:
            states["eve", key.name].count(key.rate.window if key.rate else None, 0)
    admission = ClaimAdmission(gates, states, [(name, Subject("eve", "t", "q")) for name in running], NOW, MINUTE)
    for one in candidates:
        if not admission.bars(one):
            admission.admit(one)
    admission.finish()
    return admission


def gate(effect: Effect = Effect.PAUSE, name: str | None = None, *, proved: bool = True, **match: str) -> ClosedGate:
    return ClosedGate("g", None, Match(**match), effect, "why", job=name, proved=proved)


def test_a_free_key_is_taken_with_the_next_number_and_fence() -> None:
    found = admitted(job("a", Key("k", 2)), k=[1])
    assert (found.taken, found.slots) == (["a"], [Slot(("eve", "k"), 2, "a", 1)])


def test_all_keys_of_a_job_or_none() -> None:
    found = admitted(job("a", Key("k", 1), Key("m", 1)), job("b", Key("k", 1)), m=[1])
    assert found.taken == ["b"]
    assert found.held == [Held("a", "k:eve:k", "waits for key k")]  # by then b has the other one


def test_the_first_in_rank_gets_the_last_place() -> None:
    found = admitted(job("a", Key("k", 1)), job("b", Key("k", 1)), job("c", Key("k", 2)))
    assert found.taken == ["a", "c"]
    assert found.held == [Held("b", "k:eve:k", "waits for key k")]


def test_a_full_key_is_waited_for_or_not_as_the_policy_says() -> None:
    found = admitted(job("a", Key("k", 1, None, Policy.SKIP)), job("b", Key("k", 1, None, Policy.REPLACE)), k=[1])
    assert found.ended == [Ended("a", State.SKIPPED, "key k was taken")]
    assert found.held == [Held("b", "k:eve:k", "waits for key k")]
    assert found.replacing == [Replacing(("eve", "k"), "b")]
    assert found.replacing[0].reason == "replaced by job b"


def test_a_rate_takes_a_token_that_is_kept() -> None:
    rate = Rate(1, SECOND)
    found = admitted(job("a", Key("k", None, rate), interruptions=2), job("b", Key("k", None, rate)))
    late = slack(SECOND, 2)
    assert [(one.job, one.late, one.until) for one in found.tokens] == [("a", late, NOW + late + KEPT_STARTS)]
    assert found.slacks == {"a": late}
    assert [one.job for one in found.held] == ["b"]
    assert found.wakes_admission


def test_the_shortest_slack_of_several_rates_counts_and_long_windows_are_remembered() -> None:
    found = admitted(job("a", Key("k", None, Rate(9, HOUR)), Key("m", None, Rate(9, SECOND))))
    assert found.slacks == {"a": slack(SECOND)}
    assert found.looks_back == {("eve", "k"): HOUR}
    assert {one.key[1]: one.until for one in found.tokens}["k"] == NOW + slack(HOUR) + HOUR


def test_a_job_that_waits_for_several_keys_reserves_them_from_the_next_look_on() -> None:
    first = job("a", Key("k", 1), Key("m", 1))
    behind = NOW + 9 * MINUTE + 1
    found = admitted(first, job("b", Key("m", 1), rank=behind), k=[1])
    assert found.taken == ["b"]
    place = Reservation(NOW + 9 * MINUTE, "a")
    assert found.reserving == [(("eve", "k"), place), (("eve", "m"), place)]
    again = admitted(first._replace(reserved=NOW + 9 * MINUTE), job("b", Key("m", 1), rank=behind), k=[1])
    assert (again.taken, [one.held_by for one in again.held]) == ([], ["k:eve:k", "k:eve:m"])
    nearer = admitted(first._replace(reserved=NOW + 9 * MINUTE), job("b", Key("m", 1), rank=behind - 1), k=[1])
    assert nearer.taken == ["b"]


def test_gates_come_first_and_the_oldest_that_fits_counts() -> None:
    other, drops = gate(queue="elsewhere"), gate(Effect.DROP)
    found = admitted(job("a", Key("k", 1)), gates=[other, drops, gate()])
    assert (found.taken, found.barred) == ([], [("a", drops)])


ALONE = Alone(Match(queue="q"), None, 5 * SECOND)


def test_a_job_that_wants_to_be_alone_closes_a_gate_over_those_behind_it() -> None:
    found = admitted(job("a", Key("k", 1)), job("lone", alone=ALONE), job("b", Key("m", 1)))
    assert found.taken == ["a"]
    assert found.held == [Held("lone", "a:lone", WAITS_ALONE)]
    (closed,) = found.closing
    assert (closed.job, closed.owner, closed.match) == ("lone", "eve", ALONE.match)
    assert [(name, by.job) for name, by in found.barred] == [("b", "lone")]


@pytest.mark.parametrize(("proved", "running", "goes"), [(True, [], True), (False, [], False), (True, ["x"], False)])
def test_behind_its_gate_it_starts_once_it_is_alone(proved: bool, running: list[str], goes: bool) -> None:
    own = gate(name="lone", proved=proved, queue="q")
    found = admitted(job("lone", alone=ALONE), gates=[own], running=running)
    assert (found.taken == ["lone"], found.closing) == (goes, [])


def test_it_does_not_wait_for_itself() -> None:
    own = gate(name="lone", queue="q")
    assert admitted(job("lone", alone=ALONE), gates=[own], running=["lone"]).taken == ["lone"]


def test_while_its_key_is_full_it_waits_for_that_and_the_others_may_run() -> None:
    found = admitted(job("lone", Key("k", 1), alone=ALONE), job("b", Key("m", 1)), k=[1])
    assert (found.taken, found.closing) == (["b"], [])
    assert [one.held_by for one in found.held] == ["k:eve:k"]


@pytest.mark.parametrize(
    ("alone", "since", "is_alone", "step"),
    [
        (ALONE, NOW, True, AloneStep.GO),
        (ALONE, None, False, AloneStep.GO),
        (None, NOW, False, AloneStep.GO),
        (ALONE, NOW - 5 * SECOND + 1, False, AloneStep.WAIT),
        (ALONE, NOW - 5 * SECOND, False, AloneStep.YIELD),
        (Alone(Match(), None, 5 * SECOND, cancel=True), NOW - 5 * SECOND, False, AloneStep.CANCEL),
    ],
)
def test_what_becomes_of_a_job_that_waits_until_it_is_alone(
    alone: Alone | None, since: int | None, is_alone: bool, step: AloneStep
) -> None:
    assert alone_step(alone, since, is_alone, NOW) is step
