"""The buffer of one attempt's output: its first part and its last part.

Half of the limit is for the beginning, which waits for the store. Later output goes into the *tail*, a window over the
newest output, one half of the limit wide. Its older end may be in the store by then. When the window moves on, chunks
that it leaves are dropped here, and deleted in the store by the next append, which puts the *mark* of the cut in their
place. So at every moment the store has the beginning, the mark and the part of the window that it was sent. Memory
stays bounded by the limit, however fast a job writes and however long the store is away.

Chunks get their numbers when they are taken. The number before the first chunk of the window is always free for the
mark: it belonged to a chunk that the window has left, or was skipped on purpose.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from rota.model.job import Ref
from rota.model.times import Instant
from rota.store.values import CUT, Chunk
from rota.telemetry.events import OutputEcho

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


class Sink:
    """`write` may be called from any thread and never waits."""

    __slots__ = (
        "_closed",
        "_dirty",
        "_echo",
        "_first",
        "_limit",
        "_lock",
        "_now",
        "_number",
        "_room",
        "_tail",
        "ref",
        "written",
    )

    def __init__(
        self,
        ref: Ref,
        limit: int,
        now: Callable[[], Instant],
        dirty: Callable[[Sink], None],
        echo: OutputEcho | None = None,
    ) -> None:
        self.ref = ref
        self._limit, self._now, self._dirty, self._echo = limit, now, dirty, echo
        self._lock = threading.Lock()
        self._first: deque[_Piece] = deque()
        self._room = limit // 2
        self._tail: _Tail | None = None
        self._number = 0
        self._closed = False
        self.written = False

    def write(self, stream: str, body: bytes) -> None:
        if not body:
            return
        with self._lock:
            if self._closed:
                return
            self.written = True
            if self._echo is not None:
                self._echo.write(stream, body)
            now = self._now()
            if self._room > 0:
                body = self._add_first(stream, body, now)
            if body:
                if self._tail is None:
                    self._tail = _Tail(self._limit - self._limit // 2)
                self._tail.add(stream, body, now)
        self._dirty(self)

    def _add_first(self, stream: str, body: bytes, now: Instant) -> bytes:
        """Returns the bytes beyond the beginning."""
        last = self._first[-1] if self._first else None
        if last is not None and last.takes(stream, body, now) and len(body) <= self._room:
            self._room -= last.add(body)
            return b""
        rest = body[self._room :]
        for start in range(0, len(body) - len(rest), LARGEST_CHUNK):
            piece = _Piece(stream, now, body[start : min(start + LARGEST_CHUNK, len(body) - len(rest))])
            self._first.append(piece)
            self._room -= piece.cost
        return rest

    def close(self) -> None:
        """The attempt is over: later writes are dropped."""
        with self._lock:
            if self._echo is not None and not self._closed:
                self._echo.close()
            self._closed = True

    @property
    def empty(self) -> bool:
        """Nothing waits for the store."""
        with self._lock:
            return not self._first and (self._tail is None or not self._tail.fresh)

    @property
    def held(self) -> int:
        """Bytes that wait for the store."""
        with self._lock:
            pieces = [*self._first, *(self._tail.fresh if self._tail else ())]
            return sum(piece.size for piece in pieces)

    def take_first(self, room: int) -> list[Chunk]:
        """The next chunks of the beginning, at most `room` bytes."""
        with self._lock:
            return self._chunks(self._first, room)[0]

    def take_last(self, room: int) -> list[Chunk]:
        """The next chunks of the tail, after the beginning; first the mark, if the cut has grown."""
        with self._lock:
            tail = self._tail
            if tail is None or self._first or not tail.fresh or tail.fresh[0].size > room:
                return []
            if tail.since < 0:
                tail.since = self._number
                self._number += 1
            marks = []
            if tail.left > tail.told:
                tail.told = tail.left
                if not tail.kept:  # a new number, so that a follower who has read the last one sees it too
                    self._number += 1
                place = (tail.kept[0].number if tail.kept else self._number) - 1
                text = tail.mark(self._limit).encode()
                marks = [Chunk(self.ref.job_id, self.ref.fence, place, tail.left_at, CUT, text, tail.since)]
            chunks, kept = self._chunks(tail.fresh, room)
            tail.kept += kept
            return marks + chunks

    def _chunks(self, pieces: deque[_Piece], room: int) -> tuple[list[Chunk], list[_Kept]]:
        chunks: list[Chunk] = []
        kept: list[_Kept] = []
        while pieces and pieces[0].size <= room:
            piece = pieces.popleft()
            room -= piece.size
            body, left = piece.body, piece.cost
            for start in range(0, piece.size, LARGEST_CHUNK):
                part = body[start : start + LARGEST_CHUNK]
                chunks.append(Chunk(self.ref.job_id, self.ref.fence, self._number, piece.at, piece.stream, part))
                cost = min(left, LARGEST_CHUNK)
                kept.append(_Kept(self._number, cost, len(part), *count_lines(part), piece.at))
                left -= cost
                self._number += 1
        return chunks, kept


class _Piece:
    """Output of one stream at one time."""

    __slots__ = ("_parts", "at", "cost", "size", "stream")

    def __init__(self, stream: str, at: Instant, body: bytes) -> None:
        self.stream, self.at, self._parts, self.size = stream, at, [body], len(body)
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


class _Kept(NamedTuple):
    """A chunk of the tail that the store has, or is about to get."""

    number: int
    cost: int
    size: int
    lines: int
    exact: bool
    at: Instant


class _Tail:
    def __init__(self, room: int) -> None:
        self._room = room
        self._piece = min(max(room // PIECES, LEAST_COST), room, LARGEST_PIECE)
        self._cost = 0  # of the window
        self.kept: deque[_Kept] = deque()
        self.fresh: deque[_Piece] = deque()
        self.since = -1  # the first number behind the beginning
        self.left = self.told = 0  # bytes that were cut, and the number in the last mark
        self.left_at: Instant = 0
        self._lines, self._exact = 0, True

    def add(self, stream: str, body: bytes, now: Instant) -> None:
        last = self.fresh[-1] if self.fresh else None
        if last is not None and last.size + len(body) <= self._piece and last.takes(stream, body, now):
            self._cost += last.add(body)
        else:
            over = max(len(body) - self._room, 0)
            if over:
                self._leave(over, *count_lines(body[:over]), now)
            for start in range(over, len(body), self._piece):
                piece = _Piece(stream, now, body if len(body) <= self._piece else body[start : start + self._piece])
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
        self._lines += lines
        self._exact &= exact
        self.left_at = at

    def mark(self, limit: int) -> str:
        about = "" if self._exact else "about "
        return (
            f"\n[rota: {self.left:,} bytes ({about}{self._lines:,} lines) of output are left out here: "
            f"the limit is {limit:,} bytes]\n"
        )


def count_lines(body: bytes) -> tuple[int, bool]:
    """The number of lines that end in it, and whether it is exact."""
    if len(body) <= COUNTED:
        return body.count(b"\n"), True
    return body.count(b"\n", 0, SAMPLE) * len(body) // SAMPLE, False
