"""The text of a segment as conditions see it, and the lines in it.

Lines end as `bytes.splitlines` says: at a line feed, a carriage return, or both. So each state of a progress bar is a
line, and the carriage return of other systems is no part of any. Conditions see line feeds only, and U+FFFD for bytes
that are no UTF-8; then a place in what they see is not one in the bytes, and both are mapped by the lines.

A line is named by the chunk in which it begins and its offset there. That stays when chunks are sealed. A line that
goes on in another segment is two.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from rota.lines.levels import level_of
from rota.lines.segment import Contents, Track
from rota.model.times import Instant

_BREAK = re.compile(rb"[\r\n]")
_RETURN_TO_FEED = bytes.maketrans(b"\r", b"\n")


class Line(NamedTuple):
    """`number` and `offset` are the place of its first byte; `body` has no line end."""

    job_id: str
    fence: int
    stream: str
    number: int
    offset: int
    at: Instant
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def level(self) -> str | None:
        return level_of(self.body.decode("utf-8", "replace").encode(), self.stream)


class Sheet:
    def __init__(self, contents: Contents) -> None:
        self.raw, self.tracks = contents
        self.seen = self.raw.translate(_RETURN_TO_FEED) if b"\r" in self.raw else self.raw
        self._seen_of: dict[int, int] | None = None  # beginnings of lines; None: they are the same
        self._raw_of: dict[int, int] | None = None
        if not _is_text(self.seen):
            self._replace_strange_bytes()
        self._begins = [track.begin for track in self.tracks]

    def _replace_strange_bytes(self) -> None:
        strange, self.seen = self.seen, self.seen.decode("utf-8", "replace").encode()
        pairs = list(zip(_starts(strange), _starts(self.seen), strict=True))
        self._seen_of, self._raw_of = dict(pairs), {seen: raw for raw, seen in pairs}

    @cached_property
    def lowered(self) -> bytes:
        return self.seen.lower()

    @cached_property
    def unreal(self) -> frozenset[int]:
        """Beginnings of what is no line: between the two characters of one line end, and behind the last line end of a
        track."""
        inside = [found.start() + 1 for found in re.finditer(rb"\r\n", self.raw)] if b"\r" in self.raw else []
        behind = [
            track.end
            for track in self.tracks
            if track.begin == track.end or self.raw[track.end - 1 : track.end] in (b"\r", b"\n")
        ]
        return frozenset(map(self.seen_place, inside + behind))

    def seen_place(self, begin: int) -> int:
        """The place at which conditions see the line that begins here."""
        return begin if self._seen_of is None else self._seen_of[begin]

    def raw_place(self, begin: int) -> int:
        return begin if self._raw_of is None else self._raw_of[begin]

    def seen_begin(self, track: int) -> int:
        return self.seen_place(self.tracks[track].begin)

    def seen_end(self, track: int) -> int:
        """The place of the line feed behind a track."""
        last = track + 1 == len(self.tracks)
        return (len(self.seen) if last else self.seen_begin(track + 1)) - 1

    def at(self, seen: int) -> Instant:
        """When the line that is seen here was written."""
        track, chunk = self._chunk(self.raw_place(seen))
        return track.times[chunk]

    def stream(self, seen: int) -> str:
        return self._chunk(self.raw_place(seen))[0].stream

    def line(self, seen: int) -> Line:
        return self._line(self.raw_place(seen))

    def order(self, seen: int) -> tuple[Instant, str, int, int, int]:
        """The place of a line among all: its time, job, fence, chunk and offset."""
        begin = self.raw_place(seen)
        track, chunk = self._chunk(begin)
        return track.times[chunk], track.job_id, track.fence, track.numbers[chunk], begin - track.starts[chunk]

    def _line(self, begin: int) -> Line:
        track, chunk = self._chunk(begin)
        end = _BREAK.search(self.raw, begin)
        return Line(
            track.job_id,
            track.fence,
            track.stream,
            track.numbers[chunk],
            begin - track.starts[chunk],
            track.times[chunk],
            self.raw[begin : end.start() if end else len(self.raw)],
        )

    def _chunk(self, begin: int) -> tuple[Track, int]:
        track = self.tracks[bisect_right(self._begins, begin) - 1]
        return track, bisect_right(track.starts, begin) - 1

    def around(self, line: Line, before: int, after: int) -> tuple[list[Line], list[Line]]:
        """The lines before and behind it in the output of its attempt, whatever the stream, as far as this segment has
        them."""
        order = self._in_order(line.job_id, line.fence)
        place = bisect_left(order, (line.number, line.offset))
        return (
            [self._line(begin) for _, _, begin in order[max(place - before, 0) : place]],
            [self._line(begin) for _, _, begin in order[place + 1 : place + 1 + after]],
        )

    def _in_order(self, job_id: str, fence: int) -> list[tuple[int, int, int]]:
        if (job_id, fence) not in self._orders:
            self._orders[job_id, fence] = sorted(
                (track.numbers[chunk], begin - track.starts[chunk], begin)
                for place, track in enumerate(self.tracks)
                if (track.job_id, track.fence) == (job_id, fence)
                for begin in map(self.raw_place, self.starts(self.seen_begin(place), self.seen_end(place)))
                for chunk in [bisect_right(track.starts, begin) - 1]
            )
        return self._orders[job_id, fence]

    @cached_property
    def _orders(self) -> dict[tuple[str, int], list[tuple[int, int, int]]]:
        return {}

    def starts(self, begin: int, end: int) -> list[int]:
        """Where the lines between these places are seen; `end` is that of a line feed."""
        unreal = self.unreal
        return [start for start in _starts(self.seen[begin:end], begin) if start not in unreal]


def _is_text(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _starts(text: bytes, begin: int = 0) -> Iterator[int]:
    """The beginnings of what line feeds divide."""
    return accumulate([len(part) + 1 for part in text.split(b"\n")[:-1]], initial=begin)
