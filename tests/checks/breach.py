"""Violations: the invariant that is broken, and the kind under which the report of a run counts it.

The rules in this folder are pure. They take plain values (starts, ends, holders, windows, fires) and return breaches.
The simulation feeds them note by note, the chaos runs feed them from the evidence at the end. Both add what they know
alone: which overlap is excused, which order or job it was.
"""

from __future__ import annotations

from typing import NamedTuple

LOST = "lost"  # accepted, and not there at the end, or not ended
DOUBLE = "doubly effective"  # one order or one attempt that counts twice
MADE_UP = "made up"  # there, although it was refused or never asked for
OVERLAP = "overlap"  # two attempts of one job at the same time
UNPROVEN = "unproven"  # succeeded according to the store, and the job itself has no such attempt at its end
EARLY = "early"  # started before it was due
FAILED = "failed"  # ended otherwise than by success, without so many crashes that this is right

CROWDED = "above the limit"
TOO_FAST = "above the rate"

TOO_SOON = "before its parents"
WRONGLY_SKIPPED = "wrongly skipped"
NOT_SKIPPED = "not skipped"  # although a parent ended otherwise than needed

MISSED = "missed fire"  # due, and neither made nor (where that is right) recorded as skipped
DOUBLED = "doubled fire"  # two rows, two jobs, or a job and a skip for one fire
STRAY = "stray fire"  # a row or a job for an instant that no rule names
WHILE_PAUSED = "fired while paused"
MISCOUNTED_SKIPS = "miscounted skips"  # a run of skips that says another number than there were

MISCOUNTED = "miscounted"  # crashes and failures are not what the attempts say
SPARED = "not quarantined"  # it crashed as often as the limit says, and lives on
HASTY = "tried again too soon"  # after a crash that is followed by a pause

BACK = "state went back"  # an attempt found less than was kept, or a state that nobody had saved


class Breach(NamedTuple):
    invariant: str  # such as "I4"
    kind: str
    text: str
