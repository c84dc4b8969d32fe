"""Divides what one stream of an attempt says into lines while it comes, as `sheet` divides it when all is there.

A line that is told before its end, because the stream is silent, has its end swallowed later: it is no line of its own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rota.model.times import Instant
from rota.store.values import Chunk

# A longer line is several.
LONGEST_LINE = 1 << 20
_END = re.compile(rb"\r\n?|\n")


class End(NamedTuple):
    """The place behind the last byte of a line, its end included: the number of the chunk, and the place in it."""

    number: int
    offset: int


class Split(NamedTuple):
    """`number` and `offset` are the place of its first byte; `body` has no line end."""

    number: int
    offset: int
    at: Instant
    body: bytes
    end: End


class Splitter:
    """Chunks come in their order. `told`: how far this stream was told before; what is in front of that is left out."""

    def __init__(self, told: End | None = None) -> None:
        self._told = told
        self._parts: list[bytes] = []
        self._begin: tuple[int, int, Instant] | None = None  # of the line that has not ended
        self._behind = b""  # what was told last ended with this; a line end behind it may belong to it
        self._end = End(-1, 0)
        self.held = 0  # bytes of the line that has not ended

    def feed(self, chunk: Chunk) -> list[Split]:
        place = self._skipped(chunk)
        if place is None:
            return []
        body, found = chunk.body, list[Split]()
        place = self._without_old_end(body, place)
        for end in _END.finditer(body, place):
            found.append(self._line(chunk, place, end.start(), end.end()))
            place = end.end()
            self._behind = b"\r" if place == len(body) and end[0] == b"\r" else b""
        self._keep(chunk, place)
        if self.held >= LONGEST_LINE:
            found += self.flush()
        return found

    def _skipped(self, chunk: Chunk) -> int | None:
        """Where the chunk goes on behind what was told; None: nowhere."""
        told = self._told
        if told is None or chunk.number > told.number:
            self._told = None
            return 0
        if chunk.number < told.number:
            return None
        last = chunk.body[: told.offset][-1:]
        self._told, self._behind = None, b"" if last == b"\n" else last
        return told.offset

    def _without_old_end(self, body: bytes, place: int) -> int:
        if not self._behind or place >= len(body):
            return place
        behind, self._behind = self._behind, b""
        if behind == b"\r":
            return place + 1 if body[place : place + 1] == b"\n" else place
        old_end = _END.match(body, place)
        if old_end is None:
            return place
        if old_end[0] == b"\r" and old_end.end() == len(body):
            self._behind = b"\r"
        return old_end.end()

    def _line(self, chunk: Chunk, place: int, stop: int, end: int) -> Split:
        number, offset, at = self._begin or (chunk.number, place, chunk.written_at)
        body = b"".join([*self._parts, chunk.body[place:stop]])
        self._parts, self._begin, self.held = [], None, 0
        return Split(number, offset, at, body, End(chunk.number, end))

    def _keep(self, chunk: Chunk, place: int) -> None:
        rest = chunk.body[place:]
        if rest:
            self._begin = self._begin or (chunk.number, place, chunk.written_at)
            self._parts.append(rest)
            self._end = End(chunk.number, len(chunk.body))
            self.held += len(rest)

    def flush(self) -> list[Split]:
        """The line that has not ended, if there is one. What comes next begins another."""
        if self._begin is None:
            return []
        body = b"".join(self._parts)
        line = Split(*self._begin, body, self._end)
        self._parts, self._begin, self._behind, self.held = [], None, body[-1:], 0
        return [line]
