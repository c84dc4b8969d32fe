"""Reads the sources of a search in the order of the search, within a budget.

A source gives the next jobs behind a place and says of each whether it fits. Several are merged: up to the *border*,
the first place that some source has not read beyond, all jobs are known. So a step may find nothing and still has come
further, and the next page begins at the border.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from rota.store.search.plan import HIGHEST

MOST_ROWS = 40_000  # of one page
MOST_SECONDS = 0.12
FIRST, GROWTH, LARGEST = 250, 4, 8_000  # rows of a step
CONFIRMED = 100  # jobs that are read as a whole at a time


class Place(NamedTuple):
    value: int  # in the order of the ends: of the end; else 0
    id: str


class Row(NamedTuple):
    id: str
    fits: bool
    value: int = 0  # as that of a place
    more: tuple[Any, ...] = ()  # what else was asked for

    @property
    def place(self) -> Place:
        return Place(self.value, self.id)


class Part(NamedTuple):
    rows: list[Row]
    last: Place | None  # all jobs up to there are among them; None: there are no more


class Source(Protocol):
    @property
    def top(self) -> str:
        """All its ids are lower."""

    async def read(self, after: Place | None, count: int) -> Part:
        """The next `count` jobs or more behind the place; fewer, if there are no more."""


Confirm = Callable[[Sequence[Row]], Awaitable[list[Row]]]


def share(count: int, runs: int) -> int:
    """The rows to take from each of so many runs: twice its part and a few, since some are denser than others."""
    return count if runs < 2 else 2 * count // runs + 8


class Budget:
    """Of one page, unless other bounds are given."""

    def __init__(self, monotonic: Callable[[], float], rows: int | None = None, seconds: float = MOST_SECONDS) -> None:
        self._monotonic, self._rows, self._seconds = monotonic, MOST_ROWS if rows is None else rows, seconds
        self._begun = monotonic()

    def left(self, examined: int) -> bool:
        return examined < self._rows and self._monotonic() < self._begun + self._seconds

    def next_step(self, count: int, examined: int) -> int:
        """How many rows to examine after a step of `count`: more, as far as the time will do at the rate so far."""
        if (spent := self._monotonic() - self._begun) > 0:
            count = min(count * GROWTH, max(FIRST, round(examined / spent * (self._seconds - spent))))
        else:
            count *= GROWTH
        return min(count, LARGEST)


class Walk:
    """`phases`: lists of sources; each list is read to its end before the next one begins."""

    def __init__(
        self,
        phases: Sequence[Sequence[Source]],
        descending: bool,
        budget: Budget,
        confirm: Confirm | None = None,
        after: Place | None = None,
    ) -> None:
        self._phases = [sorted(phase, key=lambda one: one.top, reverse=True) for phase in phases]
        self._descending, self._budget, self._confirm = descending, budget, confirm
        self.place = after
        self.found: list[Row] = []
        self.examined = 0
        self.newest: Place | None = None  # the first job that was examined

    @property
    def over(self) -> bool:
        return not self._phases

    @property
    def phases_left(self) -> int:
        return len(self._phases)

    async def run(self, wanted: int | None = None, first: int = FIRST) -> None:
        """Until so many jobs were found, all were examined, or the budget is spent. One step is always made."""
        count = first
        while self._phases:
            full = await self._step(wanted, count)
            if full or not self._budget.left(self.examined):
                return
            count = self._budget.next_step(count, self.examined)

    async def _step(self, wanted: int | None, count: int) -> bool:
        rows, border = await self._read(wanted, count)
        self.examined += len(rows)
        if self.newest is None and rows:
            self.newest = rows[0].place
        room = None if wanted is None else wanted - len(self.found)
        known, last = await self._fitting([row for row in rows if row.fits], room)
        self.found += known[:room]
        if room is not None and len(known) >= room:
            self.place = self.found[-1].place
            return True
        if last is not None:  # not all of them were confirmed
            self.place = last
        elif border is None:
            self._phases.pop(0)
            self.place = None
        else:
            self.place = border
        return False

    async def _fitting(self, rows: list[Row], room: int | None) -> tuple[list[Row], Place | None]:
        """Those that do fit; and the last one that was looked at, if the budget was spent before the end."""
        if self._confirm is None:
            return rows, None
        known: list[Row] = []
        for start in range(0, len(rows), CONFIRMED):
            part = rows[start : start + CONFIRMED]
            known += await self._confirm(part)
            if room is not None and len(known) >= room:
                break
            if start + CONFIRMED < len(rows) and not self._budget.left(self.examined):
                return known, part[-1].place
        return known, None

    async def _read(self, wanted: int | None, count: int) -> tuple[list[Row], Place | None]:
        """The next rows in order, without doubles, and the border."""
        rows: dict[str, Row] = {}
        border: Place | None = None
        for source in self._phases[0]:
            if self._enough(source.top, rows, border, wanted, count):
                border = self._first(border, Place(0, source.top))
                break
            part = await source.read(self.place, count)
            for row in part.rows:
                rows.setdefault(row.id, row)  # a job that ends meanwhile may come twice
            if part.last is not None:
                border = self._first(border, part.last)
        found = [row for row in rows.values() if border is None or self._first(row.place, border) == row.place]
        return sorted(found, key=lambda row: row.place, reverse=self._descending), border

    def _enough(self, top: str, rows: dict[str, Row], border: Place | None, wanted: int | None, count: int) -> bool:
        """Whether the sources from here on, all whose ids are below `top`, need not be read in this step."""
        if not self._descending or top >= HIGHEST or (self.place is not None and self.place.id <= top):
            return False
        if border is not None and border.id > top:
            return True
        above = [row for row in rows.values() if row.id >= top]
        if len(above) >= count or (wanted is not None and sum(row.fits for row in above) >= wanted - len(self.found)):
            return True
        return not self._budget.left(self.examined + len(rows))

    def _first(self, one: Place | None, other: Place) -> Place:
        """The one that comes first in the order."""
        if one is None:
            return other
        return max(one, other) if self._descending else min(one, other)
