"""Quotas: read from texts and objects, and the bucket of submissions."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput, QuotaExceeded
from rota.model.limits import Rate
from rota.model.quotas import NO_QUOTAS, Quotas, quotas, submit_more, submitted
from rota.model.times import MINUTE, SECOND


def test_texts() -> None:
    given = quotas("submissions=600/1m, waiting=10000,schedules=0")
    assert given == Quotas(Rate(600, MINUTE), 10_000, 0)
    assert quotas("waiting=none", given) == Quotas(Rate(600, MINUTE), None, 0), "the others stay"
    assert given.texts() == {"submissions": "600/1m", "waiting": "10000", "schedules": "0"}
    assert quotas({"waiting": 5, "submissions": None}, given) == Quotas(None, 5, 0)
    more = quotas("running=8,output=2GB")
    assert (more.running, more.output, more.texts()) == (8, 2 * 10**9, {"running": "8", "output": "2GB"})
    assert quotas("output=none,running=none", more) == NO_QUOTAS
    assert quotas({"output": 1500}).texts() == {"output": "1500B"}
    assert not NO_QUOTAS
    assert given


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("", "parts such as"),
        ("waiting", "parts such as"),
        ("waiting=1,waiting=2", "parts such as"),
        ("fun=1", "one of submissions, waiting, schedules, running, output"),
        ("waiting=-1", "whole number from 0"),
        ("waiting=many", "whole number from 0"),
        ("submissions=5", "60/1m"),
        ("running=0", "whole number from 1"),
        ("running=-1", "whole number from 1"),
        ("running=x", "whole number from 1"),
        ("running=1.5", "whole number from 1"),
        ("running=100001", "whole number from 1"),
        ("output=1ZB", "a size such as"),
        ("output=-1", "a size such as"),
        ("output=", "parts such as"),
        ("output=99999999TB", "at most"),
    ],
)
def test_wrong_texts(wrong: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        quotas(wrong)


def test_a_bucket_empties_at_once_and_refills_evenly() -> None:
    rate, now = Rate(60, MINUTE), 1_000 * MINUTE
    until = submit_more("ann", rate, 0, now, 60)
    assert submitted(rate, until, now) == 60
    with pytest.raises(QuotaExceeded) as caught:
        submit_more("ann", rate, until, now, 1)
    assert (caught.value.quota, caught.value.used, caught.value.allowed) == ("submissions", 60, "60/1m")
    assert caught.value.retry_after == 1
    assert str(caught.value) == "user 'ann' may have submissions=60/1m; 60 used, 1 more asked for"
    later = now + 2 * SECOND
    assert submitted(rate, until, later) == 58
    until = submit_more("ann", rate, until, later, 2)
    with pytest.raises(QuotaExceeded):
        submit_more("ann", rate, until, later, 1)
    with pytest.raises(QuotaExceeded) as caught:
        submit_more("ann", rate, 0, now, 61)
    assert caught.value.retry_after is None, "so many never fit"


@given(
    st.integers(1, 50),
    st.integers(SECOND, MINUTE),
    st.lists(st.tuples(st.integers(0, 10 * SECOND), st.integers(1, 20)), max_size=30),
)
def test_no_window_has_more_than_twice_the_count(count: int, window: int, asked: list[tuple[int, int]]) -> None:
    """A full bucket, and what flows in meanwhile."""
    rate, now, until = Rate(count, window), 10 * MINUTE, 0
    taken: deque[tuple[int, int]] = deque()
    for pause, more in asked:
        now += pause
        try:
            until = submit_more("ann", rate, until, now, more)
        except QuotaExceeded:
            continue
        taken.append((now, more))
        assert sum(number for at, number in taken if at > now - window) <= 2 * count
