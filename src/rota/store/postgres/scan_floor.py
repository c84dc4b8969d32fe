"""Where to begin reading an index whose low end may be full of dead entries.

Claimed and promoted jobs leave entries behind at the low end of the index that claims or promotions read. They are
swept out of the way as soon as no transaction can see them any more; but one long transaction anywhere (a backup, a
forgotten session) keeps all of them, and then every read from the beginning walks over all that was done since.

So a reader remembers the lowest value that it has met and begins there, as long as reading from the very beginning
has shown itself to be slow, by the server's own time: a slow network or a busy loop is no reason. Jobs below that value
are rare (handed back, or more urgent than all that wait). They are found by the next full read: at once if the short
one brought less than was wanted, so an idle node overlooks nothing; and otherwise after a rest, so that full reads take
only a small part of the time while a queue is being worked off. While full reads are quick, every read is a full one.
"""

from __future__ import annotations

from collections.abc import Hashable

from rota.clock import Clock

Place = tuple[int, str]  # a rank or time, and the id that tells those of one rank apart
BEGINNING: Place = (-(1 << 63), "00000000-0000-0000-0000-000000000000")
# Seconds of the server's time that a read may take, and so much more for each row that it brings. One that takes
# longer may be somebody else's fault; two in a row are the index's,
QUICK = 0.003
PER_ROW = 0.00003
# and are followed by so many times their length without another, but not by more than this.
REST = 10
LONGEST_REST = 3.0


class ScanFloor:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._floors: dict[Hashable, Place] = {}
        self._full_again_at = 0.0
        self._slow = 0  # full reads in a row

    @property
    def full(self) -> bool:
        return self._clock.monotonic() >= self._full_again_at

    def floor(self, lane: Hashable) -> Place:
        return BEGINNING if self.full else self._floors.get(lane, BEGINNING)

    @property
    def lowest(self) -> Place:
        """Of all lanes."""
        return BEGINNING if self.full else min(self._floors.values(), default=BEGINNING)

    def read_all_next(self) -> None:
        """A read from the floor has brought less than was wanted."""
        self._full_again_at = 0.0

    def read(self, full: bool, took: float, rows: int, lowest: dict[Hashable, Place]) -> None:
        """A read has taken the server so many seconds, brought so many rows and met these lowest values."""
        self._floors.update(lowest)
        if not full:
            return
        self._slow = self._slow + 1 if took > QUICK + PER_ROW * rows else 0
        if self._slow >= 2:
            self._full_again_at = self._clock.monotonic() + min(REST * took, LONGEST_REST)
