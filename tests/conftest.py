"""What all tests share: time that stands still until it is moved, and chance that repeats."""

from __future__ import annotations

import pytest

from rota.clock import Chance, ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def chance() -> Chance:
    return Chance(1)
