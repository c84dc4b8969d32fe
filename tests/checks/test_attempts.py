"""Attempts begin once, end once, and the one that ended a job is its last."""

from __future__ import annotations

import pytest

from tests.checks.attempts import Attempts, final, proven
from tests.checks.breach import DOUBLE, UNPROVEN, Breach


def kind(breach: Breach | None) -> str | None:
    assert breach is None or breach.invariant == "I3"
    return breach and breach.kind


def test_each_attempt_begins_once() -> None:
    attempts = Attempts()
    assert [kind(attempts.begin(one)) for one in (("job", 1), ("job", 2), ("other", 1))] == [None] * 3
    assert kind(attempts.begin(("job", 1))) == DOUBLE
    assert attempts.begun == {("job", 1), ("job", 2), ("other", 1)}


def test_each_attempt_ends_once_whether_or_not_it_was_seen_to_begin() -> None:
    attempts = Attempts()
    attempts.begin(("job", 1))
    assert [kind(attempts.end(one)) for one in (("job", 1), ("job", 2))] == [None] * 2
    assert kind(attempts.end(("job", 2))) == DOUBLE


def test_a_job_succeeds_once() -> None:
    attempts = Attempts()
    assert kind(attempts.succeed("job")) is kind(attempts.succeed("other")) is None
    assert kind(attempts.succeed("job")) == DOUBLE


def test_a_success_is_proven_by_the_word_of_its_attempt() -> None:
    assert proven(("job", 1), succeeded=True) is None
    assert kind(proven(("job", 1), succeeded=False)) == UNPROVEN
    assert "crashed" in str(proven(("job", 1), succeeded=False, how="crashed"))


@pytest.mark.parametrize(("fence", "latest", "found"), [(2, 2, None), (2, 1, None), (2, 3, DOUBLE)])
def test_the_attempt_that_ended_a_job_is_its_last(fence: int, latest: int, found: str | None) -> None:
    assert kind(final("job", fence, latest)) == found
