"""Cursors: opaque, bound to their conditions, and refused by name if they are not one."""

from __future__ import annotations

import pytest

from rota.api.pages import cursor_of, read_cursor
from rota.errors import InvalidInput


def test_a_cursor_is_read_back() -> None:
    assert read_cursor(cursor_of(["ä", 7], {"a": 1}), tuple[str, int], {"a": 1}) == ("ä", 7)


@pytest.mark.parametrize(
    "text", ["", "x", "====", "ä", "W10", "bm90IGpzb24", cursor_of(["a"], {}), cursor_of([7, "a"], {}), "A" * 2_000]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_cursor(text, tuple[str, int], {})
    assert refused.value.what == "cursor"


def test_a_cursor_of_other_conditions_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the same conditions"):
        read_cursor(cursor_of(["a", 1], {"queue": "x"}), tuple[str, int], {"queue": "y"})
