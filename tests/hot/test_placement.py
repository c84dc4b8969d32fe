"""Which member keeps which minute: all agree, and a changed list moves only its share."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as some

from rota.hot.placement import keeper
from rota.model.times import MINUTE

NOON = 1_800_000_000_000_000
PLACES = some.lists(
    some.integers(0, 99).map(lambda number: f"redis://host-{number}:6379/0"), min_size=2, max_size=6, unique=True
)
TIMES = some.lists(some.integers(0, 2**53), min_size=1, max_size=30)


def kept(times: list[int], places: list[str]) -> list[str]:
    return [places[keeper(at, places)] for at in times]


def minutes(count: int) -> list[int]:
    return [NOON + number * MINUTE for number in range(count)]


def test_one_member_keeps_all() -> None:
    assert {keeper(at, ["redis://a:6379/0"]) for at in minutes(50)} == {0}


@given(PLACES, TIMES)
def test_a_minute_stays_together(places: list[str], times: list[int]) -> None:
    for at in times:
        first = at // MINUTE * MINUTE
        assert keeper(first, places) == keeper(at, places) == keeper(first + MINUTE - 1, places)


@given(PLACES, TIMES, some.randoms(use_true_random=False))
def test_all_processes_agree_whatever_the_order_of_their_lists(
    places: list[str], times: list[int], dice: object
) -> None:
    mixed = [*places]
    dice.shuffle(mixed)  # type: ignore[attr-defined]
    assert kept(times, mixed) == kept(times, places)


@given(PLACES, TIMES)
def test_a_new_member_takes_from_the_others_and_nothing_else_moves(places: list[str], times: list[int]) -> None:
    *before, new = places
    for old, now in zip(kept(times, before), kept(times, places), strict=True):
        assert now in (old, new)


@given(PLACES, TIMES)
def test_only_the_share_of_a_removed_member_moves(places: list[str], times: list[int]) -> None:
    gone, *left = places
    for old, now in zip(kept(times, places), kept(times, left), strict=True):
        assert now == old or old == gone


def test_shares_are_about_equal() -> None:
    places = [f"redis://{host}:6379/0" for host in "abc"]
    shares = Counter(kept(minutes(3_000), places))
    assert all(900 < shares[place] < 1_100 for place in places)
