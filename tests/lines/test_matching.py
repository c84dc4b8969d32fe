"""The search in a segment finds what a look at every line finds, with and without the index of words."""

from __future__ import annotations

import re
import string
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.lines import matching
from rota.lines.levels import level_of
from rota.lines.matching import find
from rota.lines.needs import may_hold, needs
from rota.lines.segment import gather, pack, read
from rota.lines.sheet import Line, Sheet
from rota.model.query.evaluate import OutputLine, line_fits
from rota.model.query.tree import EVERYTHING, NOTHING, All, Any, Condition, How, Not, Seek, Term, Text
from rota.store.values import CUT, Chunk

JOBS = [str(uuid.UUID(int=n)) for n in range(3)]
NUMBERS = {(job, fence): fence + 1 for job in JOBS for fence in range(2)}
LOWER = {ord(letter): letter.lower() for letter in string.ascii_uppercase}
LETTER = "[0-9A-Za-z_\u0080-\U0010ffff]"


# A search as one would write it down first, with Python's `re`: it shares nothing with the search but the levels.


def chunk_lines(chunks: list[Chunk]) -> Iterator[Line]:
    """Each line of each stream of each attempt."""
    streams: dict[tuple[str, int, str], list[Chunk]] = {}
    for chunk in sorted(chunks, key=lambda chunk: chunk.number):
        streams.setdefault((chunk.job_id, chunk.fence, chunk.stream), []).append(chunk)
    for (job, fence, stream), parts in streams.items():
        places = [(chunk, offset) for chunk in parts for offset in range(len(chunk.body))]
        begin = 0
        for line in b"".join(chunk.body for chunk in parts).splitlines(keepends=True):
            chunk, offset = places[begin]
            yield Line(job, fence, stream, chunk.number, offset, chunk.written_at, line.rstrip(b"\r\n"))
            begin += len(line)


def text_fits(wanted: Text, text: str) -> bool:
    if wanted.seek is Seek.REGEX:
        return re.search(wanted.text, text, re.ASCII) is not None
    part, end = wanted.text.translate(LOWER), "" if wanted.seek is Seek.PREFIX else f"(?!{LETTER})"
    before = f"(?<!{LETTER})" if re.match(LETTER, part[0]) else ""
    after = end if re.match(LETTER, part[-1]) else ""
    return re.search(before + re.escape(part) + after, text.translate(LOWER)) is not None


def line_holds(condition: Condition, line: Line) -> bool:
    match condition:
        case All(of):
            return all(line_holds(one, line) for one in of)
        case Any(of):
            return any(line_holds(one, line) for one in of)
        case Not(of):
            return not line_holds(of, line)
        case Text():
            return text_fits(condition, line.text)
        case Term():
            level = level_of(line.text.encode(), line.stream)
            number = NUMBERS[line.job_id, line.fence]
            return line_fits(condition, OutputLine(line.text, line.at, line.stream, number, level))


def slowly(chunks: list[Chunk], condition: Condition) -> list[Line]:
    return sorted(line for line in chunk_lines(chunks) if line.stream != CUT and line_holds(condition, line))


def found(chunks: list[Chunk], condition: Condition, left: dict[str, Condition] | None = None) -> list[Line]:
    left = dict.fromkeys(JOBS, condition) if left is None else left
    return sorted(line for some in find(Sheet(gather(chunks)), left, NUMBERS) for line in some)


TEXTS = "foo Foo foobar bar f o _ 7 = - é ſ É level=warn"
BREAKS = [b"\n", b"\n", b"\n", b"\r\n", b"\r"]
pieces = st.sampled_from(
    [*TEXTS.encode().split(), *BREAKS, b" ", b"ERROR ", b"INFO x: ", b"\xff", "é".encode()[:1], b"\0", b"x" * 70]
)
bodies = st.lists(pieces, max_size=12).map(b"".join)


@st.composite
def some_chunks(draw: st.DrawFn) -> list[Chunk]:
    streams = st.sampled_from(["stdout", "stdout", "stderr", "log", CUT])
    return [
        Chunk(job, fence, number, draw(st.integers(1, 5)), draw(streams), draw(bodies))
        for job in draw(st.lists(st.sampled_from(JOBS), min_size=1, max_size=3, unique=True))
        for fence in range(draw(st.integers(1, 2)))
        for number in range(draw(st.integers(1, 4)))
    ]


words = st.sampled_from(["foo", "FOO", "bar", "foobar", "f", "7", "é", "_", "x" * 70, "foo_7", "error"])
phrases = st.sampled_from(
    ["foo bar", "=", "-foo", "foo-", " ", "foo=bar", "bar\nfoo", "\r", "é foo", "\ufffd", "o\ufffd"]
)
PLAIN = r"fo+ ^foo bar$ ^$ x* [^f]* foo.bar foo\sbar (?i)FOO \bfoo\b ^.$ foo|bar (foo|bar)=\b7\b f(?:o|\b) é ^-"
ODD = r"\Afoo (?s)foo.*bar \n (?-i:foo)$ [\r\n] (?m)^foo$ (?s)^.*$ \D+$ \W"
regexes = st.sampled_from(["", *PLAIN.split(), *ODD.split()])
leaves = st.one_of(
    st.builds(Text, st.sampled_from([Seek.WORD, Seek.PREFIX, Seek.PHRASE]), words),
    st.builds(Text, st.sampled_from([Seek.PHRASE, Seek.PREFIX]), phrases),
    st.builds(Text, st.just(Seek.REGEX), regexes),
    st.builds(Term, st.just("at"), st.sampled_from([How.BELOW, How.AT_LEAST, How.IS]), st.integers(0, 6)),
    st.builds(Term, st.just("stream"), st.just(How.IS), st.sampled_from(["stdout", "stderr", "log", None])),
    st.builds(Term, st.just("level"), st.just(How.AT_LEAST), st.sampled_from(["info", "warning", "error"])),
    st.builds(Term, st.just("level"), st.just(How.IS), st.sampled_from(["warning", None])),
    st.builds(Term, st.just("attempt"), st.sampled_from([How.ABOVE, How.IS]), st.sampled_from([1, 2])),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda of: All(tuple(of)), st.lists(inner, max_size=3)),
        st.builds(lambda of: Any(tuple(of)), st.lists(inner, max_size=3)),
    ),
    max_leaves=5,
)


@settings(max_examples=200)
@given(some_chunks(), conditions, st.sampled_from([1, 12, 1 << 18]), st.sampled_from([0, 40]))
def test_it_finds_what_a_look_at_every_line_finds(
    chunks: list[Chunk], condition: Condition, piece: int, few: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "PIECE", piece)
        patch.setattr(matching, "FEW", few)
        assert found(chunks, condition) == slowly(chunks, condition)


@settings(max_examples=150)
@given(some_chunks(), conditions)
def test_what_the_index_excludes_has_nothing(chunks: list[Chunk], condition: Condition) -> None:
    packed = pack(chunks)
    if not may_hold(packed.words, needs(condition)):
        assert slowly(chunks, condition) == []


def chunk(body: bytes, number: int = 0, stream: str = "stdout", job: str = JOBS[0], fence: int = 0) -> Chunk:
    return Chunk(job, fence, number, 1_000 + number, stream, body)


def word(text: str) -> Text:
    return Text(Seek.WORD, text)


def test_a_line_goes_on_over_chunks_and_is_named_by_its_first() -> None:
    chunks = [chunk(b"one\nconnec"), chunk(b"\xff", 1, "stderr"), chunk(b"tion ", 2), chunk(b"refused\r\nmore", 3)]
    (line,) = found(chunks, Text(Seek.PHRASE, "connection refused"))
    assert line == Line(JOBS[0], 0, "stdout", 0, 4, 1_000, b"connection refused")
    assert line == found(chunks[:1] + chunks[2:3], word("connection"))[0]._replace(body=line.body)


def test_jobs_that_are_not_given_have_no_lines() -> None:
    chunks = [chunk(b"foo\n", job=job) for job in JOBS]
    assert [line.job_id for line in found(chunks, EVERYTHING, {JOBS[1]: EVERYTHING})] == [JOBS[1]]
    assert found(chunks, EVERYTHING, {}) == []


def test_each_job_has_a_condition_of_its_own() -> None:
    chunks = [chunk(b"foo\nbar\n", job=job) for job in JOBS]
    left: dict[str, Condition] = {JOBS[0]: word("foo"), JOBS[1]: NOTHING, JOBS[2]: Not(word("foo"))}
    assert [(line.job_id, line.body) for line in found(chunks, EVERYTHING, left)] == [
        (JOBS[0], b"foo"),
        (JOBS[2], b"bar"),
    ]


def test_an_attempt_whose_number_is_unknown_fits_no_number() -> None:
    contents = gather([chunk(b"foo\n", fence=9)])
    for condition, count in [
        (Term("attempt", How.IS, 1), 0),
        (Term("attempt", How.IS, None), 1),
        (Term("stream", How.IS, "stdout"), 1),
    ]:
        some = [line for lines in find(Sheet(contents), {JOBS[0]: condition}, {}) for line in lines]
        assert len(some) == count


def test_each_state_of_a_progress_bar_is_a_line() -> None:
    lines = found([chunk(b"10 %\r20 %\r\n30 %")], Text(Seek.PHRASE, "%"))
    assert [(line.offset, line.body) for line in lines] == [(0, b"10 %"), (5, b"20 %"), (11, b"30 %")]


def test_marks_of_cut_output_are_not_found_but_seen_around() -> None:
    chunks = [chunk(b"foo 1\n"), chunk(b"[foo: cut]\n", 1, CUT), chunk(b"foo 2\n", 2)]
    sheet = Sheet(gather(chunks))
    (lines,) = find(sheet, {JOBS[0]: word("foo")}, {})
    assert [line.body for line in lines] == [b"foo 1", b"foo 2"]
    assert [line.body for line in sheet.around(lines[1], 2, 2)[0]] == [b"foo 1", b"[foo: cut]"]


def test_a_line_of_megabytes_is_found_in_one_step() -> None:
    body = b"needle " + b"a" * (3 << 20) + b" pin\nneedle\n"
    sheet = Sheet(
        read(pack([chunk(body[place : place + 65536], place >> 16) for place in range(0, len(body), 65536)]).body)
    )
    assert [len(lines) for lines in find(sheet, {JOBS[0]: All((word("needle"), word("pin")))}, {})] == [1, 0]
    assert [len(lines) for lines in find(sheet, {JOBS[0]: word("a")}, {})] == [0, 0]


@pytest.mark.parametrize("pattern", [r"(a*)*b", r"(a|aa)+$", r"(.*a){20}c", r"(x+x+)+y"])
def test_no_expression_hangs(pattern: str) -> None:
    """With `re` these take longer than the world exists."""
    lines = b"".join(b"a" * 60 + b"%d\n" % n for n in range(3_000))
    assert found([chunk(lines)], Text(Seek.REGEX, pattern)) == []


def test_many_conditions_on_the_time_look_at_each_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = Sheet(gather([Chunk(JOBS[0], 0, number, number, "stdout", b"foo\n" * 50) for number in range(1, 4)]))
    looks = 0
    at = Sheet.at

    def counted(self: Sheet, seen: int) -> int:
        nonlocal looks
        looks += 1
        return at(self, seen)

    monkeypatch.setattr(Sheet, "at", counted)
    condition = Any(tuple(Term("at", How.IS, number) for number in range(2, 200)))
    (piece,) = matching.pieces(sheet, {JOBS[0]: condition}, NUMBERS)
    assert len(matching.Lines(sheet, piece).fitting(condition)) == 100
    assert looks == 150
