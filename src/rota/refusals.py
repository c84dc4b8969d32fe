"""When a write of an attempt may be given up: never because of the infrastructure.

A rotated password, a failing disk, a pooler, a lost answer: none of these may change how an attempt ended or what it
wrote. So its writes are tried again, with growing pauses, while its lease lasts.

Only values that the store can't hold are given up. The sign is an `InvalidInput` for this write alone, not for a batch,
several times in a row: a server in trouble may raise any error once.
"""

from __future__ import annotations

from rota.errors import InvalidInput, StoreError

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 1.0
# Refusals in a row that are no accident. Fewer would risk the outcome of an attempt; more would only delay the end.
CERTAIN = 3


class Refusals:
    """The answers to one write so far."""

    def __init__(self) -> None:
        self.count = 0
        self._blamed = 0

    def hopeless(self, error: Exception) -> bool:
        """Counts a refusal. True after CERTAIN `InvalidInput`s in a row; then the count starts anew."""
        self.count += 1
        self._blamed = self._blamed + 1 if isinstance(error, InvalidInput) else 0
        if self._blamed < CERTAIN:
            return False
        self._blamed = 0
        return True

    @property
    def pause(self) -> float:
        """The pause before the next try."""
        return min(FIRST_PAUSE * 2.0 ** (self.count - 1), LONGEST_PAUSE)


def anyones(error: Exception) -> bool:
    """The error is about the store as a whole (`StoreError.whole`): splitting the batch would not help."""
    return isinstance(error, StoreError) and error.whole
