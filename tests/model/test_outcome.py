"""What follows from the end of an attempt: the event, the wait, and what is counted against the job."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.lifecycle import LIVE, TERMINAL, JobEvent, State, step
from rota.model.outcome import (
    Cancelled,
    Crashed,
    CrashRule,
    Ending,
    Failed,
    Interrupted,
    Outcome,
    Problem,
    SetAside,
    Settlement,
    Snoozed,
    Succeeded,
    TimedOut,
    Usage,
    settle,
)
from rota.model.retry import FATAL, Retry, names_of
from rota.model.times import LONGEST, MINUTE, SECOND

PROBLEM = Problem("builtins.ValueError", "no such user", "Traceback ...")
LATE = Problem("timeout", "took longer than 30s")

texts = st.text(max_size=10)
codes = st.none() | st.integers(-64, 255)
waits = st.integers(0, LONGEST)
chances = st.floats(0, 1, exclude_max=True)
problems = st.builds(Problem, texts, texts, st.none() | texts)
errors = st.sampled_from([(), names_of(ValueError), names_of(TimeoutError), names_of(KeyError)])
policies = st.builds(
    Retry,
    st.integers(0, 5),
    st.sampled_from(["0s", "30s", "2s..10m", "linear 5s..1m"]),
    st.floats(0, 1),
    st.sampled_from([{}, {ValueError: FATAL}, {"TimeoutError": "1m"}, {KeyError: "0s"}]),
)
failed = st.builds(Failed, problems, errors, st.booleans(), st.none() | waits, codes)
timed_out = st.builds(TimedOut, problems, codes, st.booleans())
pauses: st.SearchStrategy[Outcome] = st.builds(Snoozed, waits, texts) | st.builds(Interrupted, texts, codes)
others: st.SearchStrategy[Outcome] = st.one_of(
    pauses,
    st.builds(Succeeded, texts, codes),
    st.builds(Cancelled, texts, codes),
    st.builds(SetAside, problems),
    st.builds(Crashed, problems),
)
outcomes: st.SearchStrategy[Outcome] = failed | timed_out | others


def settled(outcome: Outcome, retry: Retry | None = None, failures: int = 0, chance: float = 0.0) -> Settlement:
    return settle("job-1", 7, retry or Retry(), failures, outcome, chance)


@given(outcomes, policies, st.integers(0, 10), chances, texts, st.integers(1, 2**63 - 1))
def test_every_settlement_is_a_legal_step_and_carries_its_fence(
    outcome: Outcome, retry: Retry, failures: int, chance: float, job_id: str, fence: int
) -> None:
    found = settle(job_id, fence, retry, failures, outcome, chance)
    assert (found.job_id, found.fence) == (job_id, fence)
    target = step(State.RUNNING, found.event)
    assert 0 <= found.delay <= LONGEST
    assert found.delay == 0 or target is State.SCHEDULED, "only who waits for a time has a wait"
    assert found.exit_code == getattr(outcome, "exit_code", None)
    assert (found.result is not None) == (target is State.SUCCEEDED)


@given(failed | timed_out, policies, st.integers(0, 10), chances)
def test_failures_count_one_each_and_keep_their_error(
    outcome: Failed | TimedOut, retry: Retry, failures: int, chance: float
) -> None:
    found = settled(outcome, retry, failures, chance)
    assert found.event in {JobEvent.RETRY, JobEvent.FAIL}
    assert (found.failures, found.interruptions) == (1, 0)
    assert (found.error, found.reason) == (outcome.problem, outcome.problem.message)


@given(others, policies, st.integers(0, 10), chances)
def test_nothing_else_counts_as_a_failure(outcome: Outcome, retry: Retry, failures: int, chance: float) -> None:
    found = settled(outcome, retry, failures, chance)
    assert found.failures == 0
    assert found.event not in {JobEvent.RETRY, JobEvent.FAIL}
    assert found == settled(outcome, Retry(0), 0, 0.0), "policy, past failures and chance play no part"


ended = partial(Settlement, "job-1", 7)
no_user = partial(ended, failures=1, error=PROBLEM, reason="no such user")
too_late = partial(ended, failures=1, error=LATE, reason="took longer than 30s")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Succeeded('{"n":1}', 0), ended(JobEvent.SUCCEED, Ending.SUCCEEDED, exit_code=0, result='{"n":1}')),
        (Succeeded(), ended(JobEvent.SUCCEED, Ending.SUCCEEDED, result="null")),
        (Failed(PROBLEM, exit_code=3), no_user(JobEvent.RETRY, Ending.FAILED, delay=2 * SECOND, exit_code=3)),
        (Failed(PROBLEM, fatal=True), no_user(JobEvent.FAIL, Ending.FAILED)),
        (TimedOut(LATE, -9), too_late(JobEvent.RETRY, Ending.TIMED_OUT, delay=2 * SECOND, exit_code=-9)),
        (TimedOut(LATE, fatal=True), too_late(JobEvent.FAIL, Ending.TIMED_OUT)),
        (Snoozed(MINUTE, "not yet"), ended(JobEvent.SNOOZE, Ending.SNOOZED, delay=MINUTE, reason="not yet")),
        (Cancelled("by ann", -15), ended(JobEvent.CANCEL, Ending.CANCELLED, exit_code=-15, reason="by ann")),
        (
            Interrupted("node stops", -15),
            ended(JobEvent.INTERRUPT, Ending.INTERRUPTED, interruptions=1, exit_code=-15, reason="node stops"),
        ),
        (SetAside(PROBLEM), no_user(JobEvent.SET_ASIDE, Ending.SET_ASIDE, failures=0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_settlement_of_every_outcome(outcome: Outcome, expected: Settlement) -> None:
    assert settled(outcome, Retry(3, "2s..10m")) == expected


def test_every_word_of_history_comes_from_an_outcome_or_from_the_reaper() -> None:
    made = {
        settled(outcome).ending
        for outcome in (
            Succeeded(), Failed(PROBLEM), TimedOut(LATE), Snoozed(0, ""), Cancelled(""), Interrupted(""),
            SetAside(PROBLEM),
        )
    }  # fmt: skip
    assert set(Ending) - made == {Ending.CRASHED}


@given(st.integers(0, 50), chances, st.sampled_from([Failed(PROBLEM), TimedOut(LATE)]))
def test_a_job_that_always_fails_has_exactly_retries_and_one_attempts(
    retries: int, chance: float, outcome: Outcome
) -> None:
    failures, events = 0, []
    for _ in range(retries + 10):
        found = settled(outcome, Retry(retries), failures, chance)
        failures += found.failures
        events.append(found.event)
        if step(State.RUNNING, found.event) in TERMINAL:
            break
    assert events == [JobEvent.RETRY] * retries + [JobEvent.FAIL]
    assert failures == retries + 1


@given(st.lists(pauses, max_size=20))
def test_snoozes_and_interruptions_use_up_no_attempt(between: list[Outcome]) -> None:
    failures = sum(settled(outcome, Retry(1), 0).failures for outcome in between)
    assert settled(Failed(PROBLEM), Retry(1), failures).event is JobEvent.RETRY
    assert all(step(State.RUNNING, settled(outcome).event) in LIVE for outcome in between)


@given(waits, st.integers(0, 5), st.integers(0, 10))
def test_a_task_may_name_its_own_wait_but_gets_no_more_attempts(wait: int, retries: int, failures: int) -> None:
    found = settled(Failed(PROBLEM, retry_in=wait), Retry(retries), failures)
    if failures < retries:
        assert (found.event, found.delay) == (JobEvent.RETRY, wait)
    else:
        assert (found.event, found.delay) == (JobEvent.FAIL, 0)


def test_fatal_beats_a_wait_the_task_named() -> None:
    assert settled(Failed(PROBLEM, fatal=True, retry_in=SECOND)).event is JobEvent.FAIL
    by_rule = Retry(rules={ValueError: FATAL})
    assert settled(Failed(PROBLEM, names_of(ValueError), retry_in=SECOND), by_rule).event is JobEvent.FAIL


def test_rules_see_the_names_of_the_error() -> None:
    retry = Retry(3, "30s", 0, rules={LookupError: "1s", ValueError: FATAL})
    assert settled(Failed(PROBLEM, names_of(KeyError)), retry).delay == SECOND
    assert settled(Failed(PROBLEM, names_of(UnicodeError)), retry).event is JobEvent.FAIL
    assert settled(Failed(PROBLEM, names_of(OSError)), retry).delay == 30 * SECOND


@pytest.mark.parametrize("rule", [TimeoutError, "TimeoutError", "builtins.TimeoutError", "rota.Timeout"])
def test_a_timeout_obeys_the_rule_for_timeout_errors(rule: str | type[BaseException]) -> None:
    assert settled(TimedOut(LATE), Retry(3, "30s", 0, rules={rule: "1s"})).delay == SECOND
    assert settled(TimedOut(LATE), Retry(3, "30s", 0, rules={rule: FATAL})).event is JobEvent.FAIL


def test_work_that_could_not_be_stopped_is_not_started_again_beside_itself() -> None:
    assert settled(TimedOut(LATE, fatal=True), Retry(100)).event is JobEvent.FAIL


def test_a_wait_of_nothing_is_still_a_retry() -> None:
    found = settled(Failed(PROBLEM), Retry(1, "0s"))
    assert (found.event, found.delay) == (JobEvent.RETRY, 0)
    assert settled(Failed(PROBLEM, retry_in=0), Retry(1, "1h")) == found


@given(chances)
def test_chance_moves_the_wait_by_the_jitter_and_never_below_the_backoff(chance: float) -> None:
    found = settled(Failed(PROBLEM), Retry(1, "10s", jitter=0.5), chance=chance)
    assert found.delay == 10 * SECOND + int(5 * SECOND * chance)


@given(outcomes, policies)
def test_a_settlement_can_be_sent_and_read_back(outcome: Outcome, retry: Retry) -> None:
    found = settled(outcome, retry)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Settlement) == found


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_a_first_crash_restarts_at_once_and_the_last_one_is_for_the_dead_letters(limit: int) -> None:
    rule = CrashRule(limit)
    events = [rule.after_crash(count) for count in range(1, limit + 3)]
    between = [JobEvent.RECOVER] + [JobEvent.BACK_OFF] * limit
    assert events == between[: limit - 1] + [JobEvent.QUARANTINE] * 3


@given(st.integers(1, 100), st.integers(1, 200))
def test_every_crash_is_a_legal_step_and_ends_the_job_from_the_limit_on(limit: int, crashes: int) -> None:
    target = step(State.RUNNING, CrashRule(limit).after_crash(crashes))
    assert (target is State.FAILED) == (crashes >= limit)
    assert target in {State.FAILED, State.READY, State.SCHEDULED}


@pytest.mark.parametrize(
    ("crashes", "event", "message"),
    [
        (0, JobEvent.RECOVER, "killed by SIGSEGV"),
        (1, JobEvent.BACK_OFF, "killed by SIGSEGV"),
        (2, JobEvent.QUARANTINE, "killed by SIGSEGV; that was crash number 3 of this job"),
    ],
)
def test_a_crash_of_what_it_ran_in_is_counted_apart(crashes: int, event: JobEvent, message: str) -> None:
    outcome = Crashed(Problem("rota.ExecutorCrashed", "killed by SIGSEGV"))
    found = settle("job-1", 7, Retry(0), 5, outcome, 0.0, crashes, CrashRule(3))
    assert (found.event, found.ending, found.reason) == (event, Ending.CRASHED, message)
    assert (found.crashes, found.failures, found.interruptions) == (1, 0, 0)


def test_the_default_gives_a_job_three_crashes() -> None:
    events = [CrashRule().after_crash(count) for count in (1, 2, 3)]
    assert events == [JobEvent.RECOVER, JobEvent.BACK_OFF, JobEvent.QUARANTINE]
    assert CrashRule().delay == 5 * SECOND


def test_people_get_the_time_that_an_attempt_used_as_a_timedelta() -> None:
    usage = Usage(1_500_000, 20_000, 7, ("process",))
    assert (usage.wall, usage.cpu) == (timedelta(seconds=1.5), timedelta(milliseconds=20))
    kept = b'{"wall":1500000,"cpu":20000,"memory":7,"isolation":["process"]}'
    assert (msgspec.json.encode(usage), msgspec.json.decode(kept, type=Usage)) == (kept, usage)
