"""Segments give back every chunk, and refuse bodies that are damaged or made up."""

from __future__ import annotations

import random
import struct
import uuid
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.lines import segment
from rota.lines.segment import BadSegment, gather, pack, read, unpack
from rota.store.values import CUT, Chunk

JOBS = [str(uuid.UUID(int=n)) for n in (7, 1 << 127, (1 << 128) - 1)]


def chunk(body: bytes, number: int = 0, stream: str = "stdout", job: str = JOBS[0], fence: int = 1) -> Chunk:
    return Chunk(job, fence, number, 1_800_000_000_000_000 + number, stream, body)


def sealed(table: object, text: bytes, kind: int = segment.FORMAT) -> bytes:
    packed = segment.zstd.compress(msgspec.msgpack.encode(table))
    rest = struct.pack("<I", len(packed)) + packed + segment.zstd.compress(text)
    return struct.pack("<BI", kind, crc32(rest)) + rest


chunks = st.lists(
    st.builds(
        Chunk,
        st.sampled_from(JOBS),
        st.integers(0, 3),
        st.integers(0, 2**60),
        st.integers(-(2**40), 2**60),
        st.sampled_from(["stdout", "stderr", "log", CUT, "ä"]),
        st.one_of(st.binary(max_size=60), st.sampled_from([b"\n", b"\r", b"\r\n", b"a\0b\n"])),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda chunk: (chunk.job_id, chunk.fence, chunk.number),
)


@given(chunks)
def test_what_goes_in_comes_out(given: list[Chunk]) -> None:
    packed = pack(given)
    assert unpack(packed.body) == sorted(given, key=lambda chunk: (chunk.job_id, chunk.fence, chunk.number))
    assert packed.jobs == b"".join(uuid.UUID(job).bytes for job in sorted({chunk.job_id for chunk in given}))
    assert packed.size == sum(len(chunk.body) for chunk in given)
    times = [chunk.written_at for chunk in given]
    assert (packed.first_at, packed.last_at) == (min(times), max(times))


@given(chunks)
def test_tracks_have_the_lines_whole(given: list[Chunk]) -> None:
    packed = pack(given)
    assert gather(given) == read(packed.body)
    text, tracks = read(packed.body)
    lines = 0
    for track in tracks:
        own = [one for one in given if (one.job_id, one.fence, one.stream) == (track.job_id, track.fence, track.stream)]
        own.sort(key=lambda one: one.number)
        assert text[track.begin : track.end] == b"".join(one.body for one in own)
        assert text[track.end : track.end + 1] == b"\n"
        assert track.numbers == [one.number for one in own]
        lines += len(text[track.begin : track.end].splitlines())
    assert packed.lines == lines


def test_similar_output_of_many_attempts_shrinks() -> None:
    jobs = [str(uuid.UUID(int=n)) for n in range(1000)]
    packed = pack([chunk(b"INFO mail.sender: connected\n", job=job) for job in jobs])
    assert len(packed.body) < packed.size / 5
    assert packed.lines == 1000


def test_every_damaged_byte_is_seen() -> None:
    body = pack([chunk(b"hello\n" * 20)]).body
    for place in range(len(body)):
        with pytest.raises(BadSegment):
            unpack(body[:place] + bytes([body[place] ^ 0x20]) + body[place + 1 :])
        with pytest.raises(BadSegment):
            unpack(body[:place])


def test_a_later_format_is_named() -> None:
    body = pack([chunk(b"x")]).body
    with pytest.raises(BadSegment, match="format 9; this version reads 1"):
        unpack(b"\x09" + body[1:])


@pytest.mark.parametrize(
    "claim", [b"\xe0" + (1 << 40).to_bytes(8, "little"), b"\xa0" + (1 << 31).to_bytes(4, "little")]
)
def test_a_few_bytes_that_claim_much_are_refused_at_once(claim: bytes) -> None:
    frame = b"\x28\xb5\x2f\xfd" + claim + b"\x01\x00\x00"
    rest = struct.pack("<I", len(frame)) + frame + frame
    with pytest.raises(BadSegment, match="at most"):
        unpack(struct.pack("<BI", 1, crc32(rest)) + rest)


def test_a_frame_that_does_not_say_its_size_is_refused() -> None:
    inflater = segment.zstd.ZstdCompressor()
    frame = inflater.compress(bytes(1 << 20)) + inflater.flush()
    with pytest.raises(BadSegment):
        segment._inflated(frame, 1 << 30)


def test_bytes_behind_a_frame_are_refused() -> None:
    with pytest.raises(BadSegment):
        segment._inflated(segment.zstd.compress(b"one") + segment.zstd.compress(b"two"), 1 << 20)


@pytest.mark.parametrize(
    "change",
    [
        {"jobs": b"short"},
        {"track_job": [1]},
        {"track_job": [-1]},
        {"track_stream": [-1]},
        {"track_stream": [5]},
        {"track_chunks": [2]},
        {"track_chunks": [0]},
        {"track_chunks": [-1]},
        {"track_chunks": [1, 1]},
        {"sizes": [4]},
        {"sizes": [-3]},
        {"sizes": [2**62]},
        {"numbers": []},
        {"times": ["now"]},
    ],
)
def test_a_table_that_was_made_up_is_refused(change: dict[str, object]) -> None:
    right = {
        "jobs": uuid.UUID(JOBS[0]).bytes,
        "streams": ["stdout"],
        "track_job": [0],
        "track_fence": [1],
        "track_stream": [0],
        "track_chunks": [1],
        "numbers": [0],
        "times": [5],
        "sizes": [3],
    }
    assert unpack(sealed(list(right.values()), b"abc\n")) == [Chunk(JOBS[0], 1, 0, 5, "stdout", b"abc")]
    with pytest.raises(BadSegment):
        unpack(sealed(list((right | change).values()), b"abc\n"))


def test_random_bytes_are_refused() -> None:
    chance = random.Random(1)
    for size in range(40):
        with pytest.raises(BadSegment):
            unpack(b"\x01" + chance.randbytes(size))


def test_too_much_and_nothing_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "LARGEST", 10)
    assert unpack(pack([chunk(b"0123456789")]).body)
    with pytest.raises(ValueError, match="at most 10 bytes, not 11"):
        pack([chunk(b"0123456789"), chunk(b"x", number=1)])
    with pytest.raises(ValueError, match="at least one chunk"):
        pack([])
