"""How much room a key has, and who of a line goes on, without a store."""

from __future__ import annotations

import pytest

from rota.model.keys import (
    LARGEST,
    NO_BOUND,
    KeyState,
    Line,
    Reservation,
    going_on,
    looks_back,
    reserved_from,
    token_counts,
)
from rota.model.limits import KEPT_STARTS, Key, Limit, Rate
from rota.model.rank import STRICT
from rota.model.requirements import Requirements
from rota.model.times import HOUR, MINUTE, SECOND

MUTEX = Key("k", 1)
RATED = Key("k", None, Rate(2, SECOND))


def state(limit: Limit | None = None, *numbers: int, used: int = 0, **more: object) -> KeyState:
    found = KeyState(limit, numbers, **more)  # type: ignore[arg-type]
    found.count(SECOND, used)
    return found


@pytest.mark.parametrize(
    ("key", "limit", "numbers", "used", "room"),
    [
        (Key("k"), None, [1, 2, 3], 0, None),  # no bound
        (MUTEX, None, [], 0, 1),
        (MUTEX, None, [1], 0, 0),
        (MUTEX, None, [1, 2, 3], 0, -2),  # there were more places before
        (RATED, None, [1, 2, 3], 1, 1),  # holders don't count for a rate
        (Key("k", 5, Rate(2, SECOND)), None, [1], 2, 0),  # the tighter of the two
        (Key("k", 1, Rate(2, SECOND)), None, [1], 0, 0),
        (MUTEX, Limit("k", 3), [1], 0, 2),  # what a person sets wins,
        (MUTEX, Limit("k"), [1], 0, None),  # also if it is no bound
    ],
)
def test_room(key: Key, limit: Limit | None, numbers: list[int], used: int, room: int | None) -> None:
    assert state(limit, *numbers, used=used).room(key, "j", 0) == room


def test_one_place_is_left_to_a_job_that_waits_for_several_keys() -> None:
    found = state(Limit("k", 2), reserved=[Reservation(100, "other"), Reservation(200, "third")])
    assert found.room(MUTEX, "j", 100) == 2  # it ranks no further back
    assert found.room(MUTEX, "j", 101) == 1
    assert found.room(MUTEX, "j", 500) == 1  # one place, however many wait
    assert found.room(MUTEX, "other", 150) == 2  # its own place is not kept from it
    assert found.room(Key("k"), "j", 500) == 1
    assert state(None, reserved=[Reservation(100, "other")]).room(Key("k"), "j", 500) is None


def test_a_reservation_reaches_nine_steps_back_and_never_too_far() -> None:
    assert reserved_from(1_000, MINUTE) == 1_000 + 9 * MINUTE
    assert reserved_from(LARGEST - 1, STRICT) == LARGEST


def test_the_lowest_free_number_is_taken() -> None:
    found = state(None, 1, 3)
    assert [found.take(), found.take(), found.take()] == [2, 4, 5]


def test_a_token_counts_until_its_start_is_a_window_ago() -> None:
    """The start may have come as late as its slack allows."""
    assert token_counts(at=0, late=20, window=100, now=119)
    assert not token_counts(at=0, late=20, window=100, now=120)


def test_the_last_token_is_told() -> None:
    found = state(None, used=0)
    assert [found.start(Rate(2, SECOND)) for _ in range(3)] == [False, True, True]


def test_tokens_are_kept_for_as_long_as_any_job_looks_back() -> None:
    long = Key("k", None, Rate(1, HOUR))
    assert looks_back(long, state()) == HOUR
    assert looks_back(long, state(kept=2 * HOUR)) is None
    assert looks_back(Key("k", None, Rate(1, KEPT_STARTS)), state()) is None
    assert looks_back(MUTEX, state()) is None
    assert looks_back(MUTEX, state(Limit("k", None, Rate(1, HOUR)))) == HOUR


def a_line(*keys: Key, on_way: int = 0) -> Line:
    return Line("k:eve:k", on_way, "eve", Requirements(keys=keys).text, "j", 0)


def test_as_many_of_a_line_go_on_as_there_is_room_for() -> None:
    assert going_on(a_line(Key("k", 3)), Key("k", 3), state(None, 1)) == 2
    assert going_on(a_line(Key("k", 3), on_way=2), Key("k", 3), state(None, 1)) == 0  # they have a place each
    assert going_on(a_line(Key("k")), Key("k"), state(None, 1)) == NO_BOUND


def test_a_job_that_no_longer_needs_the_key_does_not_wait_for_it() -> None:
    waiting = a_line(Key("other", 1))
    assert waiting.key == Key("k")
    assert going_on(waiting, waiting.key, state(Limit("k", 1), 1)) == NO_BOUND
