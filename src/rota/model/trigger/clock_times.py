"""The times of day that are made of given hours, minutes and seconds, as seconds since midnight, in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

DAY_SECONDS = 86_400


class ClockTimes:
    """All combinations, never written out: there may be 86,400 of them."""

    def __init__(self, hours: Iterable[int], minutes: Iterable[int], seconds: Iterable[int]) -> None:
        self.hours, self.minutes, self.seconds = (tuple(sorted(set(part))) for part in (hours, minutes, seconds))

    def __len__(self) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def __getitem__(self, place: int) -> int:
        rest, second = divmod(place, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]

    def since(self, clock: int) -> Iterator[int]:
        """From this time of day on."""
        rest, second = divmod(clock, 60)
        hour, minute = divmod(rest, 60)
        for h in self.hours[bisect_left(self.hours, hour) :]:
            minutes = self.minutes if h > hour else self.minutes[bisect_left(self.minutes, minute) :]
            for m in minutes:
                now = h == hour and m == minute
                seconds = self.seconds[bisect_left(self.seconds, second) :] if now else self.seconds
                for s in seconds:
                    yield h * 3600 + m * 60 + s

    def first(self, clock: int) -> int | None:
        """The first one from this time of day on."""
        return next(self.since(clock), None)
