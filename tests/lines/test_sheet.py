"""Lines are where they are in the output, whatever conditions are shown of them."""

from __future__ import annotations

import uuid

from rota.lines.segment import gather, pack, read
from rota.lines.sheet import Line, Sheet
from rota.store.values import Chunk

JOB = str(uuid.UUID(int=5))


def chunk(body: bytes, number: int = 0, stream: str = "stdout", fence: int = 1) -> Chunk:
    return Chunk(JOB, fence, number, 1_000 + number, stream, body)


def lines(sheet: Sheet) -> list[Line]:
    return [sheet.line(start) for start in sheet.starts(0, len(sheet.seen) - 1)]


def places(chunks: list[Chunk]) -> list[tuple[int, int, bytes]]:
    sheet = Sheet(gather(chunks))
    return [(line.number, line.offset, line.body) for line in lines(sheet)]


def test_a_line_is_named_by_the_chunk_in_which_it_begins() -> None:
    chunks = [chunk(b"one\ntw"), chunk(b"o", 1), chunk(b"", 2), chunk(b" 2\nthree", 4)]
    assert places(chunks) == [(0, 0, b"one"), (0, 4, b"two 2"), (4, 3, b"three")]
    sealed = Sheet(read(pack(chunks).body))
    assert [(line.number, line.offset, line.body) for line in lines(sealed)] == places(chunks)


def test_a_line_cut_by_the_end_of_a_segment_is_two() -> None:
    assert places([chunk(b"one\ntw")]) == [(0, 0, b"one"), (0, 4, b"tw")]
    assert places([chunk(b"o\n", 1)]) == [(1, 0, b"o")]


def test_line_ends_of_all_kinds() -> None:
    assert places([chunk(b"a\r\nb\rc\n\n\r\nd\r")]) == [
        (0, 0, b"a"),
        (0, 3, b"b"),
        (0, 5, b"c"),
        (0, 7, b""),
        (0, 8, b""),
        (0, 10, b"d"),
    ]
    assert places([chunk(b"a\r"), chunk(b"\nb", 1)]) == [(0, 0, b"a"), (1, 1, b"b")]


def test_nothing_and_empty_lines() -> None:
    assert places([chunk(b"")]) == []
    assert places([chunk(b"\n")]) == [(0, 0, b"")]
    assert places([chunk(b"\0\x0b\x1c\n")]) == [(0, 0, b"\0\x0b\x1c")]


def test_bytes_that_are_no_text_are_seen_as_replaced_and_kept_as_they_are() -> None:
    chunks = [chunk(b"\xff\xfe one\r\n\xe2\x82"), chunk(b"two \xc3\n", 1), chunk("é\n".encode(), 2)]
    sheet = Sheet(gather(chunks))
    assert [line.body for line in lines(sheet)] == [b"\xff\xfe one", b"\xe2\x82two \xc3", "é".encode()]
    assert [line.offset for line in lines(sheet)] == [0, 8, 0]
    assert sheet.seen.decode() == "\ufffd\ufffd one\n\n\ufffdtwo \ufffd\né\n\n"
    assert [line.text for line in lines(sheet)] == ["\ufffd\ufffd one", "\ufffdtwo \ufffd", "é"]
    assert [sheet.at(start) for start in sheet.starts(0, len(sheet.seen) - 1)] == [1_000, 1_000, 1_002]


def test_a_character_over_two_chunks_is_one() -> None:
    assert Sheet(gather([chunk("é".encode()[:1]), chunk("é".encode()[1:], 1)])).seen.decode() == "é\n"


def test_the_lines_around_are_those_of_the_attempt_in_its_order() -> None:
    chunks = [
        chunk(b"1\n2\n"),
        chunk(b"3\n", 1, "stderr"),
        chunk(b"4\n", 2),
        chunk(b"\xff\n", 3, "log"),
        chunk(b"other\n", 0, fence=2),
    ]
    sheet = Sheet(gather(chunks))
    four = next(line for line in lines(sheet) if line.body == b"4")
    before, after = sheet.around(four, 2, 3)
    assert [line.body for line in before] == [b"2", b"3"]
    assert [line.body for line in after] == [b"\xff"]
    assert sheet.around(four, 0, 0) == ([], [])
    assert [line.body for line in sheet.around(four, 9, 0)[0]] == [b"1", b"2", b"3"]


def test_the_level_is_that_of_the_line_as_it_is_seen() -> None:
    (line,) = lines(Sheet(gather([chunk(b"ERROR x: \xff", stream="log")])))
    assert line.level == "error"
