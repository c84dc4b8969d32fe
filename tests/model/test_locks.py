"""Names and times of locks, as people give them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rota.errors import InvalidInput
from rota.model.locks import LONGEST_MARGIN, LONGEST_TTL, SHORTEST_TTL, lock_name, lock_ttl, margin
from rota.model.times import HOUR, MINUTE, SECOND


def test_names_are_like_those_of_keys() -> None:
    assert lock_name("user:7 / é") == "user:7 / é"
    for wrong in ("", " x", "x\n", "x\0", "x" * 1000, 7, None):
        with pytest.raises(InvalidInput, match=r"^lock: .* is not valid; expected 1 to \d+ printable characters"):
            lock_name(wrong)


def test_a_ttl_is_a_second_to_an_hour() -> None:
    given = ["1s", 30, timedelta(minutes=1), "1h"]
    assert [lock_ttl(one) for one in given] == [SECOND, 30 * SECOND, MINUTE, HOUR]
    for wrong in ("0s", "999ms", "61m", -1, "soon", True, None, float("nan")):
        with pytest.raises(InvalidInput, match=r"^ttl: "):
            lock_ttl(wrong)


def test_the_holder_stops_a_tenth_before_the_end() -> None:
    assert margin(SHORTEST_TTL) == SECOND // 10
    assert margin(30 * SECOND) == 3 * SECOND
    assert margin(LONGEST_TTL) == LONGEST_MARGIN
