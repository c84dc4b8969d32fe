"""Neighbouring minor versions understand each other."""

from __future__ import annotations

import pytest

from rota.remote.versions import understand


@pytest.mark.parametrize(
    ("one", "other", "understood"),
    [
        ("0.1.0", "0.1.0", True),
        ("0.1.0", "0.1.9", True),
        ("0.1.0", "0.2.0", True),
        ("0.3", "0.2.0rc1", True),
        ("0.1.0", "0.3.0", False),
        ("1.1.0", "2.1.0", False),
        ("1.9.0", "2.0.0", False),
        ("0.1.0", "", False),
        ("0.1.0", "next", False),
        ("0.1.0", "0.1.0 or so", False),
    ],
)
def test_neighbours_understand_each_other(one: str, other: str, understood: bool) -> None:
    assert understand(one, other) is understood
    assert understand(other, one) is understood
