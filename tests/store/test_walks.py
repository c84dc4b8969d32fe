"""Walks: piece by piece to the end, and not again at once."""

from __future__ import annotations

from rota.clock import ManualClock
from rota.store.walks import PIECE, REST, Walk


def test_it_goes_on_where_it_was_and_rests_at_the_end(clock: ManualClock) -> None:
    walk = Walk(clock, ("",))
    assert walk.place == ("",)
    assert walk.went(PIECE, ["m"])
    assert walk.place == ("m",)
    assert not walk.went(PIECE - 1, ["z"])
    assert walk.place is None
    clock.advance(REST - 1)
    assert walk.place is None
    clock.advance(1)
    assert walk.place == ("",), "those that had to stay may be old by now"


def test_an_empty_table_is_walked_through_at_once(clock: ManualClock) -> None:
    walk = Walk(clock, ("",))
    assert not walk.went(0, [])
    assert walk.place is None
