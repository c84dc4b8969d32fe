"""A segment: output of many attempts of one owner, sealed into one compressed body.

    byte    format
    uint32  checksum (CRC-32) of everything behind it
    uint32  length of the table
    table   a zstd frame: the columns of `_Table` as MessagePack
    text    a zstd frame: the bytes of all tracks

A *track* is what one attempt wrote to one stream: the bodies of its chunks, one behind the other, and a line feed. So
the lines of a track are whole in the text wherever its chunks were cut, similar lines are side by side for the
compression, and one scan finds what is in all of them. The table has a row for each track and a row for each chunk.

A body comes from a database or an object store, so it may be damaged or made up: `read` checks the checksum, then the
sizes that the frames claim, and never takes more memory than `LARGEST` for the text.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

import msgspec

from rota.lines.words import filter_of, words_of
from rota.model.times import Instant
from rota.store.values import Chunk

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["LARGEST", "BadSegment", "Contents", "Packed", "Track", "gather", "pack", "read", "unpack", "zstd"]

FORMAT = 1
# The bytes of output in a segment. Sealing stays far below; more would be a frame that lies.
LARGEST = 64 << 20
# Each chunk takes some bytes of the table.
_LARGEST_TABLE = 64 << 20
# Level 6 keeps a twenty-fifth less and takes five times as long; levels 2 to 4 keep more and take longer.
_LEVEL = 1
_HEAD = struct.Struct("<BII")
_CHECKED_FROM = 5


class BadSegment(Exception):
    """The body of a segment is damaged, or of a format that this version doesn't know."""


class Packed(NamedTuple):
    body: bytes
    words: bytes  # `lines.words` says how it is probed
    jobs: bytes  # the ids of the jobs, each once, 16 bytes each
    size: int  # bytes of output
    lines: int
    first_at: Instant
    last_at: Instant


class Track(NamedTuple):
    """What an attempt wrote to a stream. `begin` and `end` are places in the text; `starts` are those of the chunks."""

    job_id: str
    fence: int
    stream: str
    begin: int
    end: int
    numbers: list[int]
    times: list[Instant]
    starts: list[int]


class Contents(NamedTuple):
    """Tracks in the order of jobs, attempts and first chunks. Behind each track the text has a line feed."""

    text: bytes
    tracks: list[Track]


class _Table(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Tracks in columns, then chunks in columns. Numbers and times of a chunk are less those of the chunk before it in
    its track, so that equal steps compress to nothing."""

    jobs: bytes
    streams: list[str]
    track_job: list[int]
    track_fence: list[int]
    track_stream: list[int]
    track_chunks: list[int]
    numbers: list[int]
    times: list[int]
    sizes: list[int]


_decode = msgspec.msgpack.Decoder(_Table).decode
_encode = msgspec.msgpack.Encoder().encode


def pack(chunks: Sequence[Chunk]) -> Packed:
    """At least one chunk, in any order; each number of an attempt once."""
    ordered = sorted(chunks, key=lambda chunk: (chunk.job_id, chunk.fence, chunk.number))
    size = sum(len(chunk.body) for chunk in ordered)
    if not ordered or size > LARGEST:
        raise ValueError(f"a segment holds at least one chunk and at most {LARGEST} bytes, not {size}")
    tracks = _tracks(ordered)
    texts = _texts(tracks)
    text = b"\n".join([*texts, b""])
    jobs = list(dict.fromkeys(track[0].job_id for track in tracks))
    ids = b"".join(UUID(job).bytes for job in jobs)
    table = zstd.compress(_encode(_table(tracks, jobs, ids)), _LEVEL)
    rest = struct.pack("<I", len(table)) + table + zstd.compress(text, _LEVEL)
    times = [chunk.written_at for chunk in ordered]
    return Packed(
        body=struct.pack("<BI", FORMAT, crc32(rest)) + rest,
        words=filter_of(words_of(text)),
        jobs=ids,
        size=size,
        lines=sum(map(_lines, texts)),
        first_at=min(times),
        last_at=max(times),
    )


def gather(chunks: Sequence[Chunk]) -> Contents:
    """The contents of a segment that these chunks would make. Each number of an attempt once."""
    ordered = sorted(chunks, key=lambda chunk: (chunk.job_id, chunk.fence, chunk.number))
    begin, tracks = 0, list[Track]()
    chunks_of = _tracks(ordered)
    for track in chunks_of:
        first, numbers = track[0], [chunk.number for chunk in track]
        starts = list(accumulate((len(chunk.body) for chunk in track), initial=begin))
        times = [chunk.written_at for chunk in track]
        tracks.append(Track(first.job_id, first.fence, first.stream, begin, starts[-1], numbers, times, starts[:-1]))
        begin = starts[-1] + 1
    return Contents(b"\n".join([*_texts(chunks_of), b""]), tracks)


def _texts(tracks: list[list[Chunk]]) -> list[bytes]:
    return [b"".join([chunk.body for chunk in track]) for track in tracks]


def _tracks(ordered: list[Chunk]) -> list[list[Chunk]]:
    tracks: list[list[Chunk]] = []
    for _, attempt in groupby(ordered, key=lambda chunk: (chunk.job_id, chunk.fence)):
        streams: dict[str, list[Chunk]] = {}
        for chunk in attempt:
            streams.setdefault(chunk.stream, []).append(chunk)
        tracks += streams.values()
    return tracks


def _table(tracks: list[list[Chunk]], jobs: list[str], ids: bytes) -> _Table:
    streams = list(dict.fromkeys(track[0].stream for track in tracks))
    place_of_job = {job: place for place, job in enumerate(jobs)}
    return _Table(
        jobs=ids,
        streams=streams,
        track_job=[place_of_job[track[0].job_id] for track in tracks],
        track_fence=[track[0].fence for track in tracks],
        track_stream=[streams.index(track[0].stream) for track in tracks],
        track_chunks=[len(track) for track in tracks],
        numbers=[step for track in tracks for step in _steps([chunk.number for chunk in track])],
        times=[step for track in tracks for step in _steps([chunk.written_at for chunk in track])],
        sizes=[len(chunk.body) for track in tracks for chunk in track],
    )


def _steps(values: list[int]) -> list[int]:
    return [values[0], *(later - earlier for earlier, later in pairwise(values))]


def _lines(text: bytes) -> int:
    if b"\r" in text:
        return len(text.splitlines())
    return text.count(b"\n") + (text[-1:] not in (b"\n", b""))


def read(body: bytes) -> Contents:
    """Raises `BadSegment`."""
    table, text = _frames(body)
    try:
        tracks = _tracks_of(_decode(_inflated(table, _LARGEST_TABLE)))
        whole = _inflated(text, 2 * LARGEST)
    except (msgspec.DecodeError, ValueError, IndexError, OverflowError) as error:
        raise BadSegment(f"a segment's table can't be read: {error}") from error
    if len(whole) != (tracks[-1].end + 1 if tracks else 0):
        raise BadSegment("a segment's table doesn't fit its text")
    return Contents(whole, tracks)


def _frames(body: bytes) -> tuple[bytes, bytes]:
    if len(body) < _HEAD.size:
        raise BadSegment("a segment is cut off")
    kind, checksum, size = _HEAD.unpack_from(body)
    if kind != FORMAT:
        raise BadSegment(f"a segment has the format {kind}; this version reads {FORMAT}")
    if crc32(memoryview(body)[_CHECKED_FROM:]) != checksum:
        raise BadSegment("a segment's checksum is wrong")
    return body[_HEAD.size : _HEAD.size + size], body[_HEAD.size + size :]


def _inflated(frame: bytes, most: int) -> bytes:
    """A frame may claim terabytes, or claim little and hold much."""
    try:
        claimed = zstd.get_frame_info(frame).decompressed_size  # 0 or None: it doesn't say
        if not claimed or claimed > most:
            raise BadSegment(f"a segment claims {claimed} bytes; at most {most} are read")
        inflater = zstd.ZstdDecompressor()
        inflated = inflater.decompress(frame, max_length=claimed + 1)
    except zstd.ZstdError as error:
        raise BadSegment(f"a segment can't be decompressed: {error}") from error
    if len(inflated) != claimed or not inflater.eof or inflater.unused_data:
        raise BadSegment(f"a segment claims {claimed} bytes, and has others")
    return inflated


def _tracks_of(table: _Table) -> list[Track]:
    jobs = [str(UUID(bytes=table.jobs[place : place + 16])) for place in range(0, len(table.jobs), 16)]
    rows = zip(table.track_job, table.track_fence, table.track_stream, table.track_chunks, strict=True)
    tracks: list[Track] = []
    first = begin = 0
    for job, fence, stream, count in rows:
        last = first + count
        ends = list(accumulate(table.sizes[first:last], initial=begin))
        numbers = list(accumulate(table.numbers[first:last]))
        times = list(accumulate(table.times[first:last]))
        if min(job, stream, count - 1, *table.sizes[first:last]) < 0 or not len(numbers) == len(times) == count:
            raise BadSegment("a segment's table holds numbers that can't be")
        tracks.append(Track(jobs[job], fence, table.streams[stream], begin, ends[-1], numbers, times, ends[:-1]))
        first, begin = last, ends[-1] + 1
    return tracks


def unpack(body: bytes) -> list[Chunk]:
    """The chunks in the order of jobs, attempts and numbers. Raises `BadSegment`."""
    text, tracks = read(body)
    chunks = [
        Chunk(track.job_id, track.fence, number, at, track.stream, text[begin:end])
        for track in tracks
        for number, at, begin, end in zip(
            track.numbers, track.times, track.starts, [*track.starts[1:], track.end], strict=True
        )
    ]
    chunks.sort(key=lambda chunk: (chunk.job_id, chunk.fence, chunk.number))
    return chunks
