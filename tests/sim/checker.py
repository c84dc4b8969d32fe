"""Reads the log of a run and says what must not have happened."""

from __future__ import annotations

from collections.abc import Sequence

from tests.sim.checkpoints import CheckpointBook
from tests.sim.crashes import CrashBook, TellingBook
from tests.sim.fires import FireBook
from tests.sim.gates import AloneBook, GateBook, HeldBook
from tests.sim.graphs import GraphBook
from tests.sim.keys import KeyBook
from tests.sim.leases import LeaderBook, LeaseBook, TimeBook
from tests.sim.overlaps import OverlapBook
from tests.sim.plan import Plan
from tests.sim.promises import PromiseBook
from tests.sim.rules import Book, OrderBook, RowBook, Violation
from tests.sim.runs import FaultBook, RunBook
from tests.sim.witness import Note, Row

STRIKING = (
    "paused", "resumed", "died", "outage", "jump", "healed", "sigterm", "broken", "cut", "mended", "down", "up",
    "unlocked", "unleased", "declared", "finale", "wish", "granted", "schedule", "skip", "decree",
)  # fmt: skip


def check(
    notes: Sequence[Note], rows: dict[str, Row], output: dict[tuple[str, int], str], crashed: Sequence[str]
) -> list[Violation]:
    books: list[Book] = [RowBook(), RunBook(), OrderBook(), FaultBook(), LeaseBook(), LeaderBook(), TimeBook()]
    books += [FireBook(), OverlapBook(), PromiseBook()]
    books += [GraphBook(), KeyBook(), GateBook(), AloneBook(), HeldBook(), CheckpointBook(), CrashBook(), TellingBook()]
    for note in notes:
        for book in books:
            book.read(note)
    for book in books:
        book.close(rows, output)
    found = [violation for book in books for violation in book.violations]
    found += [Violation("broken", error, "", float("inf")) for error in crashed]
    return sorted(found, key=lambda violation: violation.at)


def explain(plan: Plan, violation: Violation, notes: Sequence[Note], mutant: str | None = None, last: int = 30) -> str:
    """For the person who must find out why."""
    about = [note for note in notes if note.at <= violation.at and _concerns(note, violation)]
    about_what = f"job {violation.job}" if violation.job else "the system"
    command = f"python -m tests.sim --seeds 1 --first {plan.seed}"
    command += f" --nodes {plan.nodes}" if plan.nodes != 2 else ""
    command += f" --mutant {mutant}" if mutant else ""
    return "\n".join(
        [
            f"seed {plan.seed}: {violation.invariant} does not hold for {about_what}: {violation.text}",
            f"  the last {len(about[-last:])} things that happened to it:",
            *(f"  {note}" for note in about[-last:]),
            f"  again: {command} --trace",
        ]
    )


def _concerns(note: Note, violation: Violation) -> bool:
    if note.job:
        return note.job == violation.job or not violation.job
    return note.what in STRIKING
