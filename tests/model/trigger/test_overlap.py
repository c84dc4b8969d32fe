"""What a fire does while an earlier one lives."""

from __future__ import annotations

from itertools import product

from rota.model.trigger.overlap import STEPS, Step, step
from rota.model.trigger.policies import Overlap


def test_the_table_of_overlaps_is_complete() -> None:
    assert set(STEPS) == set(product(Overlap, (False, True)))
    assert {step(policy, False) for policy in Overlap} == {Step.MAKE}
    assert [step(policy, True) for policy in Overlap] == [Step.MAKE, Step.SKIP, Step.QUEUE, Step.REPLACE]
