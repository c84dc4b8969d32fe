"""Places of a tail as texts."""

from __future__ import annotations

import pytest

from rota.clients.tail_places import LONGEST, MOST_STREAMS, PlaceKeeper, TailPlace, name_of, read_place
from rota.errors import InvalidInput
from rota.lines.splitter import End


def test_a_place_reads_back() -> None:
    keeper = PlaceKeeper(5)
    keeper.tell("a" * 12, End(3, 4), now=6)
    keeper.tell("b" * 12, End(0, 1), now=8)
    keeper.tell("a" * 12, End(4, 0), now=9)
    assert read_place(keeper.text) == TailPlace(5, True, {"b" * 12: End(0, 1), "a" * 12: End(4, 0)})
    keeper.settle(8)
    assert read_place(keeper.text) == TailPlace(8, True, {"a" * 12: End(4, 0)})
    keeper.settle(7)
    assert read_place(keeper.text).kept_at == 8, "it never goes back"


def test_a_place_says_when_it_has_no_room_and_is_exact_again_later() -> None:
    keeper = PlaceKeeper(0)
    for number in range(MOST_STREAMS + 1):
        keeper.tell(name_of("job", number, "stdout"), End(10**17, 10**17), now=number + 1)
    found = read_place(keeper.text)
    assert (found.exact, len(found.told)) == (False, MOST_STREAMS)
    assert len(keeper.text) <= LONGEST
    keeper.settle(MOST_STREAMS + 1)
    assert read_place(keeper.text) == TailPlace(MOST_STREAMS + 1, True, {})


@pytest.mark.parametrize(
    "text", ["", "x", "5.", "5.abc-1-2", "-5", "5~~", f"5.{'g' * 12}-1-2", f"5.{'a' * 12}-1", "5\n"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="the id of a line of a tail"):
        read_place(text)
