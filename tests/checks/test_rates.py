"""Starts in sliding windows."""

from __future__ import annotations

from tests.checks.breach import TOO_FAST
from tests.checks.rates import Starts, bursts


def test_a_windowful_is_right_and_one_more_is_not() -> None:
    assert bursts([1.0, 1.1, 2.0, 2.1], most=2, window=1.0) == []
    (breach,) = bursts([1.0, 1.1, 1.99], most=2, window=1.0)
    assert (breach.invariant, breach.kind) == ("I10", TOO_FAST)


def test_windows_slide() -> None:
    """No whole second has too many, and the one from 1.5 on has."""
    assert bursts([1.8, 1.9], 2, 1.0) == bursts([2.1, 2.2], 2, 1.0) == []
    assert len(bursts([1.8, 1.9, 2.1, 2.2], 2, 1.0)) == 2


def test_times_need_not_be_in_order() -> None:
    assert bursts([2.0, 1.0, 2.1, 1.1], 2, 1.0) == []
    assert len(bursts([1.99, 1.0, 1.1], 2, 1.0)) == 1


def test_a_start_is_held_against_the_bound_of_its_own_time() -> None:
    starts = Starts()
    assert [starts.start("key", at, 2, 1_000) for at in (0, 1)] == [None, None]
    assert starts.start("key", 10, 3, 1_000) is None  # the limit was widened
    assert starts.start("key", 11, 3, 1_000) is not None
    assert starts.start("key", 20, 2, 5) is None  # and the window cut


def test_keys_don_t_count_for_each_other_and_what_was_too_much_counts_too() -> None:
    starts = Starts()
    assert starts.start("one", 0, 1, 10) is None
    assert starts.start("other", 0, 1, 10) is None
    assert starts.start("one", 5, 1, 10) is not None
    assert starts.start("one", 12, 1, 10) is not None


def test_a_clock_that_was_set_back_does_not_count_the_future() -> None:
    starts = Starts()
    starts.start("key", 100, 1, 10)
    assert starts.start("key", 95, 1, 10) is None
