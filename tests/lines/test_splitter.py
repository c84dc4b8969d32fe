"""Lines while they come are those that are found when all is there."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from rota.lines import splitter
from rota.lines.segment import gather
from rota.lines.sheet import Sheet
from rota.lines.splitter import Splitter
from rota.store.values import Chunk

JOB = str(uuid.UUID(int=5))
BODIES = st.lists(st.binary(max_size=6).map(lambda body: bytes(b"ab\r\n"[byte % 4] for byte in body)), max_size=8)


def chunk(number: int, body: bytes) -> Chunk:
    return Chunk(JOB, 1, number, 1_000 + number, "stdout", body)


def whole(chunks: list[Chunk]) -> list[tuple[int, int, int, bytes]]:
    sheet = Sheet(gather(chunks))
    found = [sheet.line(start) for start in sheet.starts(0, len(sheet.seen) - 1)]
    return [(line.number, line.offset, line.at, line.body) for line in found]


@given(BODIES)
def test_lines_are_those_of_a_sheet(bodies: list[bytes]) -> None:
    chunks = [chunk(number, body) for number, body in enumerate(bodies)]
    one = Splitter()
    found = [line for each in chunks for line in one.feed(each)] + one.flush()
    assert [line[:4] for line in found] == (whole(chunks) if chunks else [])


@given(BODIES)
def test_another_goes_on_behind_each_line(bodies: list[bytes]) -> None:
    chunks = [chunk(number, body) for number, body in enumerate(bodies)]
    one = Splitter()
    found = [line for each in chunks for line in one.feed(each)]
    rest = one.flush()
    for index, line in enumerate(found):
        other = Splitter(line.end)
        again = [told for each in chunks for told in other.feed(each)]
        assert (again, other.flush()) == (found[index + 1 :], rest)


@given(BODIES, st.integers(0, 7))
def test_a_line_that_was_told_before_its_end_is_not_told_again_for_it(bodies: list[bytes], silent_after: int) -> None:
    """Whether it goes on or only ends, and also for another that goes on behind it."""
    chunks = [chunk(number, body) for number, body in enumerate(bodies)]
    one, found = Splitter(), list[bytes]()
    for each in chunks[:silent_after]:
        found += [line.body for line in one.feed(each)]
    early = one.flush()
    behind = [line.body for each in chunks[silent_after:] for line in one.feed(each)] + [x.body for x in one.flush()]
    text = b"".join(bodies)
    told = b"".join([*found, *(line.body for line in early), *behind])
    assert told == text.replace(b"\r", b"").replace(b"\n", b"")
    ends = len(text.splitlines())
    assert len(found) + len(early) + len(behind) in (ends, ends + 1)
    for line in early:
        other = Splitter(line.end)
        assert [told.body for each in chunks for told in other.feed(each)] + [x.body for x in other.flush()] == behind


def test_a_line_without_an_end_is_bounded() -> None:
    one = Splitter()
    long = b"x" * (splitter.LONGEST_LINE // 2)
    assert one.feed(chunk(0, long)) == []
    (line,) = one.feed(chunk(1, long))
    assert (line.number, line.offset, len(line.body), one.held) == (0, 0, splitter.LONGEST_LINE, 0)
    assert [told.body for told in one.feed(chunk(2, b"\nnext\n"))] == [b"next"]
