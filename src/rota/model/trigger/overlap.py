"""The fate of a fire whose predecessor still lives, as one table."""

from __future__ import annotations

from enum import StrEnum

from rota.model.trigger.policies import Overlap


class Step(StrEnum):
    MAKE = "make"  # insert the job as usual
    SKIP = "skip"  # record that it was skipped
    QUEUE = "queue"  # insert the job, to be released when its predecessor has ended
    REPLACE = "replace"  # cancel the predecessor and insert the job


STEPS = {
    (Overlap.ALLOW, False): Step.MAKE,
    (Overlap.ALLOW, True): Step.MAKE,
    (Overlap.SKIP, False): Step.MAKE,
    (Overlap.SKIP, True): Step.SKIP,
    (Overlap.QUEUE, False): Step.MAKE,
    (Overlap.QUEUE, True): Step.QUEUE,
    (Overlap.REPLACE, False): Step.MAKE,
    (Overlap.REPLACE, True): Step.REPLACE,
}


def step(policy: Overlap, alive: bool) -> Step:
    """`alive`: the previous fire has not reached a terminal state."""
    return STEPS[policy, alive]
