"""What attempts saved, against what later ones found."""

from __future__ import annotations

from typing import Any

from tests.checks.checkpoints import State, found
from tests.sim.rules import Book
from tests.sim.witness import Note, Row


class CheckpointBook(Book):
    """I12: what was acknowledged is found by the next attempt, or something later; never what nobody saved, or what an
    attempt with a higher fence did. A success begins anew."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[str, set[State]] = {}
        self._kept: dict[str, set[State]] = {}
        self._successes: dict[str, list[int]] = {}
        self._saw: list[tuple[Note, State | None]] = []

    def on_saving(self, note: Note, number: int) -> None:
        self._asked.setdefault(note.job, set()).add((note.fence, number))

    def on_saved(self, note: Note, number: int) -> None:
        self._kept.setdefault(note.job, set()).add((note.fence, number))

    def on_saw(self, note: Note, state: list[int] | None) -> None:
        self._saw.append((note, None if state is None else (state[0], state[1])))

    def on_row(self, note: Note, before: Row | None, after: Row | None, **_: Any) -> None:
        if before and after and before["state"] != "succeeded" and after["state"] == "succeeded":
            self._successes.setdefault(note.job, []).append(after["fence"])

    def close(self, rows: dict[str, Row], output: dict[tuple[str, int], str]) -> None:
        for note, state in self._saw:
            anew = max((fence for fence in self._successes.get(note.job, []) if fence < note.fence), default=0)
            asked, kept = self._asked.get(note.job, set()), self._kept.get(note.job, set())
            self.report(found(state, note.fence, asked, kept, anew), note)
