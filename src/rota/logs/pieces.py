"""The pieces of an attempt's output, and the window over the newest of them."""

from __future__ import annotations

import sys
from collections import deque
from typing import NamedTuple

from rota.logs.journal import SinkState
from rota.model.output_marks import LimitMark
from rota.model.times import Instant

LARGEST_CHUNK = 64 << 10
# Writes to one stream within this time share a chunk, and so a timestamp.
SAME_TIME = 20_000
# The least cost of a piece: a job that writes single bytes to both streams in turn costs memory too.
LEAST_COST = 64
# The window moves by whole pieces: at most this part of it, and never larger than one append.
PIECES = 8
LARGEST_PIECE = 1 << 20
# The lines of larger pieces are estimated from a sample: counting holds the interpreter.
COUNTED = 64 << 10
SAMPLE = 4 << 10


class Piece:
    """Output of one stream at one time. `start`: its place in the output of the attempt."""

    __slots__ = ("_parts", "at", "cost", "size", "start", "stream")

    def __init__(self, stream: str, at: Instant, body: bytes, start: int) -> None:
        self.stream, self.at, self._parts, self.size, self.start = stream, at, [body], len(body), start
        self.cost = max(self.size, LEAST_COST)

    def takes(self, stream: str, body: bytes, at: Instant) -> bool:
        near = 0 <= at - self.at <= SAME_TIME
        return near and stream == self.stream and self.size + len(body) <= LARGEST_CHUNK

    def add(self, body: bytes) -> int:
        """Returns the added cost."""
        self._parts.append(body)
        self.size += len(body)
        before, self.cost = self.cost, max(self.size, LEAST_COST)
        return self.cost - before

    @property
    def body(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class Kept(NamedTuple):
    """A chunk of the tail that the store has, or is about to get."""

    number: int
    cost: int
    size: int
    lines: int
    exact: bool
    at: Instant


class Tail:
    def __init__(self, room: int) -> None:
        self._room = room
        self._piece = min(max(room // PIECES, LEAST_COST), room, LARGEST_PIECE)
        self._cost = 0  # of the window
        self.kept: deque[Kept] = deque()
        self.fresh: deque[Piece] = deque()
        self.since = -1  # the first number behind the beginning
        self.left = self.told = 0  # bytes that were cut, and the number in the last mark
        self.left_at: Instant = 0
        self.lines, self.exact = 0, True  # of them

    @classmethod
    def resumed(cls, state: SinkState) -> Tail:
        """The tail of an attempt whose node is gone. It lets nothing go."""
        tail = cls(sys.maxsize)
        tail.since, tail.told, tail.left, tail.left_at = state.since, state.told, state.left, state.left_at
        tail.lines, tail.exact = state.lines, state.exact
        if state.window >= 0:
            tail.kept.append(Kept(state.window, 0, 0, 0, True, state.left_at))
        return tail

    def add(self, stream: str, body: bytes, now: Instant, place: int) -> None:
        last = self.fresh[-1] if self.fresh else None
        if last is not None and last.size + len(body) <= self._piece and last.takes(stream, body, now):
            self._cost += last.add(body)
        else:
            over = max(len(body) - self._room, 0)
            if over:
                self._leave(over, *count_lines(body[:over]), now)
            for start in range(over, len(body), self._piece):
                part = body if len(body) <= self._piece else body[start : start + self._piece]
                piece = Piece(stream, now, part, place + start)
                self.fresh.append(piece)
                self._cost += piece.cost
        while self._cost > self._room and len(self.kept) + len(self.fresh) > 1:
            self._drop()

    def _drop(self) -> None:
        if self.kept:
            oldest = self.kept.popleft()
            self._cost -= oldest.cost
            self._leave(oldest.size, oldest.lines, oldest.exact, oldest.at)
        else:
            piece = self.fresh.popleft()
            self._cost -= piece.cost
            self._leave(piece.size, *count_lines(piece.body), piece.at)

    def _leave(self, size: int, lines: int, exact: bool, at: Instant) -> None:
        self.left += size
        self.lines += lines
        self.exact &= exact
        self.left_at = at

    def mark(self, limit: int) -> str:
        return LimitMark(self.left, self.lines, self.exact, limit).text()


def count_lines(body: bytes) -> tuple[int, bool]:
    """The number of lines that end in it, and whether it is exact."""
    if len(body) <= COUNTED:
        return body.count(b"\n"), True
    return body.count(b"\n", 0, SAMPLE) * len(body) // SAMPLE, False
