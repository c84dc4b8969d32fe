"""The lower bound for reads of an index whose low end may be full of dead entries.

Claimed and promoted jobs leave entries behind at the low end of the index that claims or promotions read. PostgreSQL
removes them once no transaction can see them. One long transaction (a backup, a forgotten session) keeps all of them,
and then every read from the beginning passes over all work done since.

So a reader remembers the lowest value that it has met and begins there, while full reads are slow. Slowness is measured
in the server's time: a slow network or a busy loop does not count. Jobs below that value are rare (handed back, or more
urgent than all that wait). The next full read finds them. It follows at once if the short read brought less than was
wanted, so an idle node misses nothing; otherwise it follows after a rest, so that full reads take a small part of the
time. While full reads are quick, every read is a full one.
"""

from __future__ import annotations

from collections.abc import Hashable

from rota.clock import Clock

Place = tuple[int, str]  # a rank or time, and the id that breaks ties
BEGINNING: Place = (-(1 << 63), "00000000-0000-0000-0000-000000000000")
# Seconds of the server's time that a quick read may take, and seconds more per row. One slower read may be chance; two
# in a row are blamed on the index,
QUICK = 0.003
PER_ROW = 0.00003
# and are followed by a rest of this many times their length, up to a maximum.
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
        """The lowest floor of all lanes."""
        return BEGINNING if self.full else min(self._floors.values(), default=BEGINNING)

    def read_all_next(self) -> None:
        """Makes the next read a full one, after a read that brought less than was wanted."""
        self._full_again_at = 0.0

    def read(self, full: bool, took: float, rows: int, lowest: dict[Hashable, Place]) -> None:
        """Records a read: the server's seconds, the number of rows, and the lowest value of each lane."""
        self._floors.update(lowest)
        if not full:
            return
        self._slow = self._slow + 1 if took > QUICK + PER_ROW * rows else 0
        if self._slow >= 2:
            self._full_again_at = self._clock.monotonic() + min(REST * took, LONGEST_REST)
