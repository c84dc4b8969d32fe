"""Mutants change texts of queries; a text that has changed would be found only by the slow tests otherwise."""

from __future__ import annotations

import pytest

from tests.sim.mutants import EDITED, edited


@pytest.mark.parametrize("mutant", EDITED)
def test_a_mutant_finds_the_text_that_it_changes(mutant: str) -> None:
    assert edited(mutant) != edited(None)
