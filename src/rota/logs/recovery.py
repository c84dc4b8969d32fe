"""Rebuilds what a dead node had not stored of an attempt's output, from its journal.

Chunks that were taken are made again as they were, number by number: the node may have sent them. What had no number
yet gets the numbers after them. Last comes what the keeper found in the pipes of a command (`LEFT`).

Anything may lie in a folder: links, pipes, files of others, contents that were made up. What can't be read, or says
what can't be, is `Broken`. A machine that is short of descriptors or memory raises instead: its files are fine.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from rota.logs.journal import FORMAT, Record, RecordKind, SinkState, Taken, Title, read_records, read_taken
from rota.logs.sink import LARGEST_CHUNK, Sink
from rota.logs.spool import LEFT, SUFFIX
from rota.model.job import Ref
from rota.model.times import Instant
from rota.store.values import CUT, Chunk

_ENOUGH = 1 << 62  # more than any output
# A file of a journal ends soon after `FILE_SIZE`, and a pipe holds less.
LARGEST_FILE = 64 << 20
# What lay in pipes gets numbers from here on if no journal tells how many chunks were before it.
AFTER_ALL = 1 << 40
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR)
# What decoding of made-up contents may raise.
_IMPOSSIBLE = (ValueError, LookupError, OverflowError, struct.error)
_title = msgspec.json.Decoder(Title)


class Unreadable(Exception):
    """These files are not journals of this version, or say what can't be."""


class Rest(NamedTuple):
    """What lay in a pipe."""

    stream: str
    at: Instant
    body: bytes


class Remains(NamedTuple):
    """What is left of one attempt's output, and the files with it."""

    ref: Ref
    proof: str
    paths: list[Path]
    chunks: list[Chunk]


class Broken(NamedTuple):
    """Files that can't be understood."""

    paths: list[Path]
    why: str


class _Files:
    """Those of one attempt."""

    def __init__(self, ref: Ref, proof: str) -> None:
        self.ref, self.proof = ref, proof
        self.limit: int | None = None
        self.parts: list[tuple[int, Path]] = []
        self.left: list[Path] = []

    @property
    def paths(self) -> list[Path]:
        """In the order in which they may go: without the earlier ones the later ones give nothing that is not in the
        store by then."""
        return [*self.left, *(path for _, path in sorted(self.parts))]

    def chunks(self, limit: int) -> list[Chunk]:
        records = [one for _, path in sorted(self.parts) for one in read_records(_contents(path))]
        rest = [Rest(path.name.rpartition("~")[2], _time(path), _contents(path)) for path in self.left]
        return rebuilt(self.ref, limit if self.limit is None else self.limit, records, rest)


def found(folder: Path, limit: int) -> Iterator[Remains | Broken]:
    """The remains in a spool, attempt by attempt. Files that say nothing are removed. `limit` holds for attempts
    without a journal: all that is there of them lay in pipes. Raises OSError if the machine is in trouble."""
    attempts: dict[Ref, _Files] = {}
    for path in sorted(folder.iterdir()):
        try:
            _note(attempts, path)
        except (Unreadable, OSError, *_IMPOSSIBLE) as error:
            yield Broken([path], _why(error))
    for files in attempts.values():
        try:
            chunks = files.chunks(limit)
        except (Unreadable, OSError, *_IMPOSSIBLE) as error:
            yield Broken(files.paths, _why(error))
        else:
            yield Remains(files.ref, files.proof, files.paths, chunks)


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _SHORTAGES:
        raise error
    return str(error)


def _contents(path: Path) -> bytes:
    """Does not wait for a writer of a named pipe, and does not follow a link to what is no spool."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            raise Unreadable("no file of our user")
        if about.st_size > LARGEST_FILE:
            raise Unreadable(f"{about.st_size:,} bytes are more than a file of a spool has")
        return file.read(LARGEST_FILE)


def _note(attempts: dict[Ref, _Files], path: Path) -> None:
    if path.name.startswith(LEFT):
        ref, proof = _named(path.name)
        attempts.setdefault(ref, _Files(ref, proof)).left.append(path)
        return
    if not path.name.endswith(SUFFIX):
        raise Unreadable("no file of a spool")
    record = next(read_records(_contents(path)), None)
    if record is None:
        path.unlink()
        return
    title = _read_title(record)
    ref = _checked(Ref(title.job, title.fence), title.proof)
    files = attempts.setdefault(ref, _Files(ref, title.proof))
    files.limit = title.limit
    files.parts.append((title.part, path))


def _read_title(record: Record) -> Title:
    try:
        title = _title.decode(record.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreadable(f"its title: {error}") from None
    if record.kind is not RecordKind.TITLE or title.format != FORMAT:
        raise Unreadable("a journal of another version")
    return title


def _named(name: str) -> tuple[Ref, str]:
    try:
        _, job, fence, proof, stream = name.split("~")
        if stream not in ("stdout", "stderr"):
            raise ValueError
        return _checked(Ref(job, int(fence)), proof), proof
    except ValueError:
        raise Unreadable(f"a file named {name!r}") from None


def _checked(ref: Ref, proof: str) -> Ref:
    if not (ref.job_id + proof).isascii() or "\0" in ref.job_id or not 0 < ref.fence < _ENOUGH:
        raise Unreadable("it names an attempt that can't be")
    return ref


def _time(path: Path) -> Instant:
    return path.stat().st_mtime_ns // 1000


def rebuilt(ref: Ref, limit: int, records: Sequence[Record], rest: Iterable[Rest] = ()) -> list[Chunk]:
    """The chunks to append, in the order of appending. Raises Unreadable."""
    written = {record.state.end: record for record in records if record.kind is RecordKind.WRITTEN}
    last = records[-1] if records else None
    new = SinkState(room=limit // 2, number=AFTER_ALL)
    state, kept, at = (last.state, last.kept, last.at) if last else (new, 0, 0)
    chunks = [
        chunk
        for record in records
        if record.kind is RecordKind.TAKEN and record.serial > kept
        for taken in read_taken(ref.job_id, ref.fence, record.body)
        for chunk in _whole(taken, written)
    ]
    clock = [at]
    sink = Sink(ref, limit, lambda: clock[0], lambda _: None)
    if last is None:
        sink.resume(state, ())
    else:
        waiting = list(_waiting(state, written.values()))
        if sum(len(body) for *_, body in waiting) != state.first_end - state.first_from + state.end - state.tail_from:
            raise Unreadable("bytes that wait are missing")
        sink.resume(state, waiting)
        if last.kind is RecordKind.WRITTEN:
            sink.write(last.stream, last.body)
    for one in rest:
        clock[0] = max(clock[0], one.at)
        sink.write(one.stream, one.body)
    chunks = _as_replaced([*chunks, *sink.take_first(_ENOUGH), *sink.take_last(_ENOUGH)])
    if any(one.number >= _ENOUGH or len(one.body) > LARGEST_CHUNK for one in chunks):
        raise Unreadable("it holds chunks that can't be")
    return chunks


def _as_replaced(chunks: Iterable[Chunk]) -> list[Chunk]:
    """What is left of chunks that are appended one after the other. The store gets them at once, and all that an append
    holds stays: a mark in it must not meet an earlier one, nor chunks that it stands for."""
    left: list[Chunk] = []
    for chunk in chunks:
        if chunk.since is not None:
            left = [one for one in left if not chunk.since <= one.number <= chunk.number]
        left.append(chunk)
    return left


def _whole(taken: Taken, written: Mapping[int, Record]) -> Iterator[Chunk]:
    chunk = taken.chunk
    if chunk.stream == CUT:
        yield chunk
        return
    body = b"".join(
        record.body[max(taken.start - start, 0) : taken.start + taken.size - start]
        for start, record in sorted(written.items())
        if start < taken.start + taken.size and start + len(record.body) > taken.start
    )
    if len(body) != taken.size:
        raise Unreadable(f"bytes of chunk {chunk.number} are missing")
    yield msgspec.structs.replace(chunk, body=body)


def _waiting(state: SinkState, written: Iterable[Record]) -> Iterator[tuple[int, str, Instant, bytes]]:
    """What had not been taken, with the place, the stream and the time of each part."""
    for record in sorted(written, key=lambda one: one.state.end):
        start, end = record.state.end, record.state.end + len(record.body)
        for low, high in ((state.first_from, state.first_end), (state.tail_from, state.end)):
            if max(start, low) < min(end, high):
                yield max(start, low), record.stream, record.at, record.body[max(start, low) - start : high - start]
