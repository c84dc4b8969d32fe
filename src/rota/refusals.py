"""When a write of an attempt may be given up: never because of the infrastructure.

A password is rotated, a disk fails, a pooler stands in between, an answer is lost: nothing of that may change how an
attempt ended or what it wrote. So its writes are tried again, with growing pauses, for as long as its lease lasts.

One thing is no use trying again: values that the store can't hold. An `InvalidInput` says so. It must be said of this
write alone, not of a batch, and several times in a row: a server in trouble says many things, once.
"""

from __future__ import annotations

from rota.errors import InvalidInput, StoreError

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 1.0
# So many refusals in a row are no accident. Fewer risk the outcome of an attempt; more only keep a hopeless one longer.
CERTAIN = 3


class Refusals:
    """What one write, tried alone, was answered so far."""

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
        """How long to wait before the next try."""
        return min(FIRST_PAUSE * 2.0 ** (self.count - 1), LONGEST_PAUSE)


def anyones(error: Exception) -> bool:
    """The error is about the store as a whole (`StoreError.whole`): splitting the batch would not help."""
    return isinstance(error, StoreError) and error.whole
