"""The throttle forgets, and its memory is bounded."""

from __future__ import annotations

from rota.api.throttle import FREE, LONGEST_WAIT, MOST_NAMES, Throttle, neighbourhood
from rota.clock import ManualClock


def test_waits_grow_up_to_a_bound_and_time_forgives() -> None:
    clock = ManualClock()
    throttle = Throttle(clock)
    waits = [throttle.failed(["a"]) for _ in range(200)]
    assert waits[: int(FREE)] == [0] * int(FREE)
    assert waits[int(FREE)] == 5
    assert max(waits) == LONGEST_WAIT
    clock.advance(LONGEST_WAIT)
    assert 0 < throttle.failed(["a"]) <= 5
    clock.advance(3600)
    assert throttle.failed(["a"]) == 0


def test_the_strictest_name_counts() -> None:
    throttle = Throttle(ManualClock())
    for number in range(20):
        throttle.failed(["address", f"key {number}"])
    assert throttle.failed(["other", "key"]) == 0
    assert throttle.failed(["address", "new"]) > 0


def test_memory_is_bounded() -> None:
    throttle = Throttle(ManualClock())
    for number in range(MOST_NAMES + 100):
        throttle.failed([str(number)])
    assert len(throttle._seen) == MOST_NAMES


def test_addresses_of_one_network_are_one() -> None:
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff:2") != neighbourhood("2001:db8:0:1::1")
    assert neighbourhood("::ffff:192.0.2.1") == "192.0.2.1"
    assert neighbourhood("unix") == "unix"
