"""What attempts saved, against what later ones found."""

from __future__ import annotations

from typing import Any

from tests.sim.rules import Book
from tests.sim.witness import Note, Row

Saved = tuple[int, int]  # the fence of the attempt, and how often it had saved


class CheckpointBook(Book):
    """I12: what was acknowledged is found by the next attempt, or something later; never what nobody saved, or what an
    attempt with a higher fence did. A success begins anew."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[str, set[Saved]] = {}
        self._kept: dict[str, set[Saved]] = {}
        self._successes: dict[str, list[int]] = {}
        self._saw: list[tuple[Note, Saved | None]] = []

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
            kept = {saved for saved in self._kept.get(note.job, ()) if anew < saved[0] < note.fence}
            if state is not None and (state not in self._asked.get(note.job, ()) or not anew < state[0] < note.fence):
                self.found("I3", f"it found {state}, which no attempt before it had saved for it", note)
            elif kept and (state is None or state < max(kept)):
                self.found("I12", f"it found {state}, though {max(kept)} was kept", note)
