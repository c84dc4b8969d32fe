"""The first and the last of an output, and the mark between them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from rota.clock import ManualClock
from rota.logs.sink import LARGEST_CHUNK, SAME_TIME, Sink
from rota.model.job import Ref
from rota.store.values import CUT, Chunk

MIB = 1 << 20
MARK = re.compile(
    rb"\n\[rota: ([\d,]+) bytes \((about )?([\d,]+) lines\) of output are left out here: the limit is [\d,]+ bytes\]\n"
)


class Stage:
    """A sink, its clock, and a store that does what the contract says."""

    def __init__(self, limit: int) -> None:
        self.clock = ManualClock()
        self.sink = Sink(Ref("job", 1), limit, self.clock.now, lambda _: None)
        self.kept: dict[int, Chunk] = {}
        self.told: list[Chunk] = []

    def carry(self, room: int = 1 << 30) -> int:
        chunks = self.sink.take_first(room) or self.sink.take_last(room)
        for chunk in chunks:
            if chunk.since is not None:
                self.kept = {n: one for n, one in self.kept.items() if not chunk.since <= n <= chunk.number}
            assert chunk.number not in self.kept
            assert len(chunk.body) <= LARGEST_CHUNK
            self.kept[chunk.number] = chunk
        self.told += chunks
        return len(chunks)

    def carry_all(self) -> None:
        while self.carry():
            pass

    @property
    def chunks(self) -> list[Chunk]:
        return [self.kept[number] for number in sorted(self.kept)]

    def parts(self) -> tuple[bytes, int | None, int | None, bytes]:
        """The beginning, how many bytes and lines were left out, and the end."""
        places = [index for index, chunk in enumerate(self.chunks) if chunk.stream == CUT]
        if not places:
            return b"".join(chunk.body for chunk in self.chunks), None, None, b""
        (place,) = places
        found = MARK.fullmatch(self.chunks[place].body)
        assert found
        first, last = (b"".join(c.body for c in part) for part in (self.chunks[:place], self.chunks[place + 1 :]))
        return first, _number(found[1]), _number(found[3]), last


def _number(text: bytes) -> int:
    return int(text.replace(b",", b""))


def test_up_to_the_limit_nothing_is_cut() -> None:
    stage = Stage(2 * MIB)
    body = random.Random(1).randbytes(2 * MIB)
    for start in range(0, len(body), 1000):
        stage.sink.write("stdout", body[start : start + 1000])
        stage.clock.advance(0.001)
    stage.carry_all()
    assert stage.parts() == (body, None, None, b"")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("limit", [1024, 5000, 4 * MIB])
@pytest.mark.parametrize("size", [1, 37, 5000, MIB])
@pytest.mark.parametrize("carries", [0, 3, 1000], ids=["store away", "seldom", "always"])
def test_of_more_the_first_and_the_last_are_kept(limit: int, size: int, carries: int) -> None:
    rng = random.Random(f"{limit}/{size}")
    total = min(3 * limit, 20_000 * size) + 11
    body = b"".join(b"%07d\n" % number for number in range(total // 8 + 1))[:total]
    stage = Stage(limit)
    for start in range(0, total, size):
        stage.sink.write("stdout", body[start : start + size])
        stage.clock.advance(0.0001)
        if rng.random() * 1000 < carries:
            stage.carry(rng.choice([LARGEST_CHUNK, MIB]))
        if start % (100 * size) == 0:
            assert stage.sink.held <= limit + MIB
    stage.carry_all()
    first, left, lines, last = stage.parts()
    assert body.startswith(first)
    assert len(first) <= limit // 2
    if left is None:
        assert first + last == body
        return
    assert body.endswith(last)
    assert len(first) + left + len(last) == total
    assert len(first) + len(last) <= limit
    assert lines == pytest.approx(body[len(first) : total - len(last)].count(b"\n"), rel=0.02, abs=2)
    if size > 64:
        assert len(first) == limit // 2
        assert len(last) >= (limit - limit // 2) * 3 // 4


def test_many_tiny_pieces_cost_more_than_their_bytes() -> None:
    """Bytes to both streams in turn: each is a chunk. Their number is bounded, not only their size."""
    stage = Stage(64 * 1024)
    for _ in range(20_000):
        stage.sink.write("stdout", b"o")
        stage.sink.write("stderr", b"e")
    stage.carry_all()
    assert len(stage.chunks) <= 1024 + 1
    assert stage.chunks[512].stream == CUT


def test_the_mark_moves_on_with_the_window() -> None:
    stage = Stage(4096)
    marks: list[int | None] = []
    for number in range(400):
        stage.sink.write("stdout", b"%099d\n" % number)
        stage.clock.advance(1)
        stage.carry_all()
        marks.append(stage.parts()[1])
    first, left, lines, last = stage.parts()
    assert marks[:40] == [None] * 40
    assert marks == sorted(marks, key=lambda left: left or 0)
    assert last.endswith(b"%099d\n" % 399)
    assert len(first) + (left or 0) + len(last) == 40_000
    assert abs((lines or 0) - (left or 0) // 100) <= 1


def test_a_follower_sees_every_gap() -> None:
    """Reading on from the last number: everything that was carried comes in order, and a mark wherever something is
    missing."""
    stage, seen, position = Stage(4096), [], -1
    body = bytes(range(256)) * 16
    for _ in range(5):
        stage.sink.write("stdout", body * 3)
        stage.carry_all()
        news = [chunk for chunk in stage.chunks if chunk.number > position]
        position = news[-1].number
        seen.append([chunk.stream == CUT for chunk in news])
    assert [marks.count(True) for marks in seen] == [1] * 5
    assert all(marks[0] for marks in seen[1:])


def test_a_line_has_the_time_at_which_it_was_written() -> None:
    stage = Stage(MIB)
    times = []
    for _ in range(200):
        times.append(stage.clock.now())
        stage.sink.write("stdout", b"line\n")
        stage.clock.advance(0.007)
    stage.carry_all()
    shown = [chunk.written_at for chunk in stage.chunks for _ in chunk.body.splitlines()]
    assert len(shown) == len(times)
    assert all(0 <= real - said <= SAME_TIME for real, said in zip(times, shown, strict=True))


def test_a_clock_that_is_set_back_begins_a_new_chunk() -> None:
    stage = Stage(MIB)
    stage.sink.write("stdout", b"one\n")
    stage.clock.jump(-3600)
    stage.sink.write("stdout", b"two\n")
    stage.carry_all()
    assert [chunk.body for chunk in stage.chunks] == [b"one\n", b"two\n"]


STREAMS: dict[str, Callable[[Stage], None]] = {
    "beginning": lambda stage: None,
    "tail": lambda stage: stage.sink.write("log", bytes(MIB)),
}


@pytest.mark.parametrize("before", STREAMS.values(), ids=STREAMS)
def test_streams_are_told_apart_and_keep_their_order(before: Callable[[Stage], None]) -> None:
    stage = Stage(2 * MIB)
    before(stage)
    for stream, body in (("stdout", b"1"), ("stdout", b"2"), ("stderr", b"3"), ("stdout", b"4")):
        stage.sink.write(stream, body)
    stage.carry_all()
    assert [(c.stream, c.body) for c in stage.chunks[-3:]] == [("stdout", b"12"), ("stderr", b"3"), ("stdout", b"4")]
