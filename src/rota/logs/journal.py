"""The journal of one attempt's output: files from which another process can rebuild what its node had not yet stored.

Bytes are in the journal before anything is done with them, and a chunk is before it is sent. Nothing is synced: the
pages belong to the kernel, so they outlive the process, not the machine. A record names all that a `Sink` knows, so the
last one is enough to go on; bytes are found by their offsets in the attempt's output. So a file may be deleted as soon
as no bytes in it wait for the store, wherever it stands among the others.

A file begins with the *title* of its attempt. Each time it is written from its beginning again, its records have a new
*epoch*: what stands behind them from an earlier one is not read.

The file system may refuse a write. Then the journal of the attempt is dropped as a whole, because a part of it would be
rebuilt to other chunks, and begins again when nothing waits. The output itself is not affected.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

import msgspec

from rota.store.values import CUT, Chunk

FORMAT = 1
# Files of a journal are deleted one by one.
FILE_SIZE = 4 << 20
# Larger bodies are checked at their ends: what a record lost by the death of its writer is missing at the end.
SAMPLE = 4 << 10
STREAMS = ("stdout", "stderr", "log", CUT)
# The size of a body that was being moved from a pipe: it reaches to the end of the file.
OPEN_END = (1 << 32) - 1
_CHECK = struct.Struct("<I")
_HEAD = struct.Struct("<IIIIBB?xqQQqQQQqQQqQq")
_ENTRY = struct.Struct("<qqqQIBx")
_NOWHERE = (1 << 63) - 1


class RecordKind(IntEnum):
    TITLE = 1  # with the state: what lay in the pipes may be all that follows
    WRITTEN = 2  # bytes, with the state before they came
    TAKEN = 3  # numbered chunks that are about to be sent, with the state after that
    STATE = 4  # what holds from now on: files that earlier records need are about to go


class Title(msgspec.Struct, frozen=True):
    job: str
    fence: int
    limit: int  # of its output
    proof: str = ""  # see `Store.proof`
    part: int = 0
    format: int = FORMAT


class SinkState(NamedTuple):
    """What a sink knows beside the bytes. Places are offsets in the attempt's output."""

    end: int = 0
    number: int = 0  # of the next chunk
    room: int = 0  # of the beginning
    first_from: int = 0  # bytes of the beginning that were not taken
    first_end: int = 0
    tail_from: int = 0  # bytes of the tail that were not taken; they reach to the end
    since: int = -1
    told: int = 0
    left: int = 0
    left_at: int = 0
    lines: int = 0
    window: int = -1  # the number of the first chunk of the window that was taken
    exact: bool = True

    @property
    def waits(self) -> bool:
        return self.first_from < self.first_end or self.tail_from < self.end


class Record(NamedTuple):
    kind: RecordKind
    epoch: int
    serial: int  # how often chunks were taken by then,
    kept: int  # and which of these are in the store
    at: int
    stream: str
    state: SinkState
    body: bytes


class Taken(NamedTuple):
    """A chunk in a record. The body of a mark is kept; other bodies are found by their place."""

    chunk: Chunk
    start: int
    size: int


class Files(Protocol):
    """Where a journal gets its files, and tells its troubles."""

    def take(self) -> JournalFile:
        """Raises OSError; also for a while after `failed`."""

    def give(self, file: JournalFile) -> None:
        """Takes back a file that says nothing any more."""

    def failed(self, error: OSError) -> None: ...

    def epoch(self) -> int:
        """Another number with each call: records that stand behind each other in a file have the same."""


class JournalFile:
    """Closes with its last user, which may be a thread that nobody waits for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self.reach = os.fstat(self.descriptor).st_size  # the end of the file,
        self.restart()

    def restart(self) -> None:
        self.end = 0  # and of the records
        self.low, self.high = _NOWHERE, 0  # the range of bytes of output in it
        self.serial = 0  # the last chunks taken in it

    def write(self, *parts: bytes) -> None:
        size = sum(map(len, parts))
        if os.pwritev(self.descriptor, parts, self.end) != size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.end += size
        self.reach = max(self.reach, self.end)

    def cut(self) -> None:
        """Removes what earlier epochs left behind the records."""
        if self.reach > self.end:
            os.ftruncate(self.descriptor, self.end)
            self.reach = self.end

    def __del__(self) -> None:
        if (descriptor := getattr(self, "descriptor", -1)) >= 0:
            os.close(descriptor)


class Journal:
    """Called by its sink, under the sink's lock."""

    def __init__(self, files: Files, title: Title) -> None:
        self._files, self._title = files, title
        self._own: list[JournalFile] = []
        self._epoch = self._part = 0
        self._serial = self._kept = 0
        self._sent_first = self._sent_tail = _NOWHERE  # where bytes begin that were sent and may not be in the store
        self._dropped = False
        self._splices = True

    def wrote(self, state: SinkState, stream: str, at: int, body: bytes) -> None:
        if (file := self._room(state)) is None:
            return
        try:
            file.write(*self._packed(RecordKind.WRITTEN, state, stream, at, body))
        except OSError as error:
            self._drop(error)
            return
        file.low, file.high = min(file.low, state.end), state.end + len(body)

    def move(self, state: SinkState, stream: str, at: int, pipe: int, size: int) -> bytes | None:
        """Reads a pipe with something in it: its bytes are in the file when they leave the pipe. None if that can't be
        done here. Raises BlockingIOError."""
        if not self._splices or (file := self._room(state)) is None:
            return None
        try:
            file.cut()
            head = self._head(RecordKind.WRITTEN, state, stream, at, OPEN_END)
            os.pwrite(file.descriptor, head, file.end)
            start = file.end + len(head)
            file.reach = start
            came = os.splice(pipe, file.descriptor, size, offset_dst=start, flags=os.SPLICE_F_NONBLOCK)
            file.reach += came
            body = os.pread(file.descriptor, came, start)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno == errno.EINVAL:  # not on this file system
                self._splices = False
            else:
                self._drop(error)
            return None
        if body:
            self._seal(file, self._packed(RecordKind.WRITTEN, state, stream, at, body)[0], start + len(body))
            file.low, file.high = min(file.low, state.end), state.end + len(body)
        return body

    def _seal(self, file: JournalFile, head: bytes, end: int) -> None:
        """Replaces the head of a body that was moved."""
        place, file.end = file.end, end
        try:
            os.pwrite(file.descriptor, head, place)
        except OSError as error:
            self._drop(error)

    def took(self, state: SinkState, taken: Sequence[tuple[Chunk, int]]) -> None:
        """Chunks, each with the place of its bytes."""
        self._serial += 1
        for chunk, start in taken:
            if chunk.stream == CUT:
                continue
            if start < state.first_end:
                self._sent_first = min(self._sent_first, start)
            else:
                self._sent_tail = min(self._sent_tail, start)
        if self._dropped or not self._own:
            return
        file = self._own[-1]  # never a new one: its title would tell what holds only with this record
        body = b"".join(part for chunk, start in taken for part in _entry(chunk, start))
        try:
            file.write(*self._packed(RecordKind.TAKEN, state, CUT, 0, body))
        except OSError as error:
            self._drop(error)
            return
        file.serial = self._serial

    def stored(self, state: SinkState) -> None:
        """All that was taken is in the store."""
        self._kept = self._serial
        self._sent_first = self._sent_tail = _NOWHERE
        if state.waits:
            self._trim(state)
            return
        self._dropped = False
        self._let_go(self._own[:-1], state)
        if self._own:
            self._own[0].restart()

    def close(self) -> None:
        """The attempt has ended, and nothing of it waits."""
        own, self._own = self._own, []
        for file in own:
            self._files.give(file)

    # -- files -------------------------------------------------------------------------------------------------------
    def _room(self, state: SinkState) -> JournalFile | None:
        """The file to write to."""
        if self._dropped:
            return None
        try:
            if not self._own or self._own[-1].end >= FILE_SIZE:
                self._own.append(self._files.take())
            file = self._own[-1]
            if not file.end:
                self._epoch = self._files.epoch()
                title = msgspec.json.encode(msgspec.structs.replace(self._title, part=self._part))
                self._part += 1
                file.write(*self._packed(RecordKind.TITLE, state, CUT, 0, title))
                self._trim(state)
        except OSError as error:
            self._drop(error)
        return self._own[-1] if self._own else None  # none: it was dropped while files were let go

    def _trim(self, state: SinkState) -> None:
        """Lets files go that have nothing in them that waits."""
        first, tail = min(self._sent_first, state.first_from), min(self._sent_tail, state.tail_from)

        def waits(file: JournalFile) -> bool:
            begins = file.high > first and file.low < state.first_end
            return begins or file.high > tail or file.serial > self._kept

        self._let_go([file for file in self._own[:-1] if not waits(file)], state)

    def _let_go(self, files: Sequence[JournalFile], state: SinkState) -> None:
        """Gives files back, when the last record does not need them any more."""
        if not files:
            return
        try:
            self._own[-1].write(*self._packed(RecordKind.STATE, state, CUT, 0, b""))
        except OSError as error:
            self._drop(error)
            return
        for file in files:
            self._own.remove(file)
            self._files.give(file)

    def _drop(self, error: OSError) -> None:
        self._dropped = True
        self.close()
        self._files.failed(error)

    def _packed(self, kind: RecordKind, state: SinkState, stream: str, at: int, body: bytes) -> tuple[bytes, bytes]:
        return self._head(kind, state, stream, at, len(body), body), body

    def _head(self, kind: RecordKind, state: SinkState, stream: str, at: int, size: int, body: bytes = b"") -> bytes:
        packed = _HEAD.pack(
            size, self._epoch, self._serial, self._kept, kind, STREAMS.index(stream), state.exact, at, *state[:-1]
        )
        return _CHECK.pack(_checksum(packed, body)) + packed


# The head of no record: a file that begins with it says nothing.
NOTHING = _CHECK.pack(0) + bytes(_HEAD.size)


def _entry(chunk: Chunk, start: int) -> tuple[bytes, ...]:
    since = -1 if chunk.since is None else chunk.since
    head = _ENTRY.pack(chunk.number, since, chunk.written_at, start, len(chunk.body), STREAMS.index(chunk.stream))
    return (head, chunk.body) if chunk.stream == CUT else (head,)


def _checksum(head: bytes, body: bytes) -> int:
    check = zlib.crc32(head)
    if len(body) <= 2 * SAMPLE:
        return zlib.crc32(body, check)
    return zlib.crc32(body[-SAMPLE:], zlib.crc32(body[:SAMPLE], check))


# -- reading ---------------------------------------------------------------------------------------------------------
def read_records(data: bytes) -> Iterator[Record]:
    """The records of a file, up to the first that is torn or of an earlier epoch."""
    place, epoch = 0, None
    least = _CHECK.size + _HEAD.size
    while place + least <= len(data):
        head = data[place + _CHECK.size : place + least]
        size, its, serial, kept, kind, stream, exact, at, *state = _HEAD.unpack(head)
        place += least
        moving = size == OPEN_END
        body = data[place:] if moving else data[place : place + size]
        check = _checksum(head, b"" if moving else body)
        if (check,) != _CHECK.unpack_from(data, place - least) or (not moving and len(body) != size):
            return
        if epoch is not None and its != epoch:
            return
        epoch = its
        place += len(body)
        yield Record(RecordKind(kind), its, serial, kept, at, STREAMS[stream], _state(state, exact), body)


def _state(numbers: list[int], exact: bool) -> SinkState:
    return SinkState._make([*numbers, exact])


def read_taken(job: str, fence: int, body: bytes) -> Iterator[Taken]:
    place = 0
    while place < len(body):
        number, since, at, start, size, stream = _ENTRY.unpack_from(body, place)
        place += _ENTRY.size
        text = b""
        if STREAMS[stream] == CUT:
            text, place = body[place : place + size], place + size
        yield Taken(Chunk(job, fence, number, at, STREAMS[stream], text, None if since < 0 else since), start, size)
