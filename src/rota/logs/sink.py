"""The buffer of one attempt's output: its first part and its last part.

Half of the limit is for the beginning, which waits for the store. Later output goes into the *tail*, a window over the
newest output, one half of the limit wide. Its older end may be in the store by then. When the window moves on, chunks
that it leaves are dropped here, and deleted in the store by the next append, which puts the *mark* of the cut in their
place. So at every moment the store has the beginning, the mark and the part of the window that it was sent. Memory
stays bounded by the limit, however fast a job writes and however long the store is away.

Chunks get their numbers when they are taken. The number before the first chunk of the window is always free for the
mark: it belonged to a chunk that the window has left, or was skipped on purpose.

With a spool, everything is in the attempt's journal too, so that it outlives this process (`journal`).
"""

from __future__ import annotations

import array
import fcntl
import os
import termios
import threading
from collections import deque
from collections.abc import Callable, Sequence

from rota.logs.journal import Journal, SinkState
from rota.logs.pieces import LARGEST_CHUNK, LARGEST_PIECE, SAME_TIME, Kept, Piece, Tail, count_lines
from rota.logs.spool import AttemptSpool
from rota.model.job import Ref
from rota.model.times import Instant
from rota.store.values import CUT, Chunk
from rota.telemetry.events import OutputEcho

__all__ = ["LARGEST_CHUNK", "LARGEST_PIECE", "SAME_TIME", "Sink", "count_lines"]


class Sink:
    """`write` may be called from any thread and never waits."""

    __slots__ = (
        "_closed",
        "_dirty",
        "_echo",
        "_edge",
        "_end",
        "_first",
        "_journal",
        "_limit",
        "_lock",
        "_now",
        "_number",
        "_room",
        "_tail",
        "ref",
        "spool",
        "written",
    )

    def __init__(
        self,
        ref: Ref,
        limit: int,
        now: Callable[[], Instant],
        dirty: Callable[[Sink], None],
        echo: OutputEcho | None = None,
        spool: AttemptSpool | None = None,
    ) -> None:
        self.ref = ref
        self.spool = spool
        self._journal: Journal | None = None  # made with the first output
        self._limit, self._now, self._dirty, self._echo = limit, now, dirty, echo
        self._lock = threading.Lock()
        self._first: deque[Piece] = deque()
        self._room = limit // 2
        self._tail: Tail | None = None
        self._number = 0
        self._end = 0  # bytes written,
        self._edge = 0  # and those of the beginning
        self._closed = False
        self.written = False

    def write(self, stream: str, body: bytes) -> None:
        if not body:
            return
        with self._lock:
            if self._closed:
                return
            now = self._now()
            if (journal := self._opened()) is None:
                self._add(stream, body, now)
            else:
                for start in range(0, len(body), LARGEST_PIECE):
                    part = body[start : start + LARGEST_PIECE]
                    journal.wrote(self._state, stream, now, part)
                    self._add(stream, part, now)
        self._dirty(self)

    def pull(self, stream: str, pipe: int, size: int) -> bytes:
        """Reads a pipe, as `os.read` does: the bytes are in the journal before they are out of the pipe."""
        with self._lock:
            now, body = self._now(), None
            if not self._closed and _holds(pipe) and (journal := self._opened()) is not None:
                body = journal.move(self._state, stream, now, pipe, size)
                if body is None:
                    body = os.read(pipe, size)
                    journal.wrote(self._state, stream, now, body)
            if body is None:
                body = os.read(pipe, size)
            if not body or self._closed:
                return body
            self._add(stream, body, now)
        self._dirty(self)
        return body

    def _opened(self) -> Journal | None:
        if self._journal is None and self.spool is not None:
            self._journal = self.spool.journal()
        return self._journal

    def _add(self, stream: str, body: bytes, now: Instant) -> None:
        self.written = True
        if self._echo is not None:
            self._echo.write(stream, body)
        rest = self._add_first(stream, body, now) if self._room > 0 else body
        if rest:
            if self._tail is None:
                self._tail = Tail(self._limit - self._limit // 2)
            self._tail.add(stream, rest, now, self._end + len(body) - len(rest))
        self._end += len(body)

    def _add_first(self, stream: str, body: bytes, now: Instant) -> bytes:
        """Returns the bytes beyond the beginning."""
        last = self._first[-1] if self._first else None
        if last is not None and last.takes(stream, body, now) and len(body) <= self._room:
            self._room -= last.add(body)
            self._edge = self._end + len(body)
            return b""
        rest = body[self._room :]
        for start in range(0, len(body) - len(rest), LARGEST_CHUNK):
            part = body[start : min(start + LARGEST_CHUNK, len(body) - len(rest))]
            piece = Piece(stream, now, part, self._end + start)
            self._first.append(piece)
            self._room -= piece.cost
        self._edge = self._end + len(body) - len(rest)
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
            taken, _ = self._chunks(self._first, room)
            return self._sent(taken)

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
                mark = Chunk(self.ref.job_id, self.ref.fence, place, tail.left_at, CUT, text, tail.since)
                marks = [(mark, tail.fresh[0].start)]
            taken, kept = self._chunks(tail.fresh, room)
            tail.kept += kept
            return self._sent(marks + taken)

    def stored(self) -> None:
        """All chunks that were taken are in the store, or will never be."""
        if self._journal is not None:
            with self._lock:
                self._journal.stored(self._state)

    def done(self) -> None:
        """The attempt has ended, and nothing of its output waits."""
        if self._journal is not None:
            with self._lock:
                self._journal.close()

    def _sent(self, taken: list[tuple[Chunk, int]]) -> list[Chunk]:
        if taken and self._journal is not None:
            self._journal.took(self._state, taken)
        return [chunk for chunk, _ in taken]

    def _chunks(self, pieces: deque[Piece], room: int) -> tuple[list[tuple[Chunk, int]], list[Kept]]:
        """Chunks, with the places of their bytes."""
        chunks: list[tuple[Chunk, int]] = []
        kept: list[Kept] = []
        while pieces and pieces[0].size <= room:
            piece = pieces.popleft()
            room -= piece.size
            body, left = piece.body, piece.cost
            for start in range(0, piece.size, LARGEST_CHUNK):
                part = body[start : start + LARGEST_CHUNK]
                chunk = Chunk(self.ref.job_id, self.ref.fence, self._number, piece.at, piece.stream, part)
                chunks.append((chunk, piece.start + start))
                cost = min(left, LARGEST_CHUNK)
                kept.append(Kept(self._number, cost, len(part), *count_lines(part), piece.at))
                left -= cost
                self._number += 1
        return chunks, kept

    # -- its state, in the journal -----------------------------------------------------------------------------------
    @property
    def _state(self) -> SinkState:
        first, tail = self._first, self._tail
        about = (self._end, self._number, self._room, first[0].start if first else self._edge, self._edge)
        if tail is None:
            return SinkState(*about, tail_from=self._end)
        fresh = tail.fresh[0].start if tail.fresh else self._end
        window = tail.kept[0].number if tail.kept else -1
        return SinkState(
            *about, fresh, tail.since, tail.told, tail.left, tail.left_at, tail.lines, window, tail.exact
        )  # fmt: skip

    def resume(self, state: SinkState, written: Sequence[tuple[int, str, Instant, bytes]]) -> None:
        """Goes on where another sink was. `written`: bytes that it had not taken, each with place, stream and time.

        The window holds still from now on: only what lay in pipes can follow, and which chunks would have to leave
        is not known any more.
        """
        self._end, self._number, self._room, self._edge = state.end, state.number, state.room, state.first_end
        if state.tail_from < state.end or state.since >= 0 or state.left:
            self._tail = Tail.resumed(state)
        for start, stream, at, body in written:
            pieces = self._first if start < state.first_end else self._tail.fresh if self._tail else self._first
            if pieces and pieces[-1].takes(stream, body, at):
                pieces[-1].add(body)
            else:
                pieces.append(Piece(stream, at, body, start))


def _holds(pipe: int) -> bool:
    """Whether there is something to read."""
    size = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)
    return size[0] > 0
