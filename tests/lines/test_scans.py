"""Scans over many lines find them as a look at each would."""

from __future__ import annotations

import pytest

from rota.lines.scans import by_lines, in_lines, with_regex, with_text
from rota.model.query.tree import Seek, Text
from rota.model.query.words import text_fits

LINES = [b"one foo", b"food", b"", b"xfoo foo", b"foo-bar", b"-foo- foobar", b"\xc3\xa9foo", b"foo"]
TEXT = b"\n".join(LINES) + b"\n"
STARTS = [sum(len(line) + 1 for line in LINES[:place]) for place in range(len(LINES))]


@pytest.mark.parametrize(
    ("seek", "part", "lines"),
    [
        (Seek.WORD, "FOO", [0, 3, 4, 5, 7]),
        (Seek.PREFIX, "foo", [0, 1, 3, 4, 5, 7]),
        (Seek.PREFIX, "oo", []),
        (Seek.PHRASE, "-foo", [5]),
        (Seek.PHRASE, "-", [4, 5]),
        (Seek.PHRASE, "foo-", [4, 5]),
        (Seek.PHRASE, "éfoo", [6]),
        (Seek.PHRASE, "food\n", []),
        (Seek.WORD, "absent", []),
    ],
)
def test_words_and_phrases_stand_between_borders(seek: Seek, part: str, lines: list[int]) -> None:
    assert with_text(TEXT, 0, len(TEXT) - 1, Text(seek, part)) == {STARTS[line] for line in lines}
    assert [line for line in range(len(LINES)) if text_fits(Text(seek, part), LINES[line].decode())] == lines


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (r"^foo$", [7]),
        (r"foo$", [0, 3, 6, 7]),
        (r"^$", [2]),
        (r"d\s*x", []),
        (r"d[^y]*x", []),
        (r"", list(range(8))),
        (r"(?s)one.*food", []),
        (r"(o+)-", [4, 5]),
    ],
)
def test_expressions_stay_within_a_line(pattern: str, lines: list[int]) -> None:
    assert by_lines(pattern)
    assert with_regex(TEXT, 0, len(TEXT) - 1, in_lines(pattern)) == {STARTS[line] for line in lines}


def test_a_scan_stays_within_its_borders() -> None:
    begin, end = STARTS[3], STARTS[5] - 1
    assert with_text(TEXT, begin, end, Text(Seek.WORD, "foo")) == {STARTS[3], STARTS[4]}
    assert with_regex(TEXT, begin, end, in_lines("foo")) == {STARTS[3], STARTS[4]}
    assert with_regex(TEXT, STARTS[2], STARTS[2], in_lines("^$")) == {STARTS[2]}


@pytest.mark.parametrize("pattern", [r"\Afoo", r"foo\z", r"\C", r"(?-m)^foo", r"(?-m:^foo)", r"(?i-sm:x)"])
def test_what_means_the_whole_text_is_not_for_many_lines(pattern: str) -> None:
    assert not by_lines(pattern)


def test_a_long_word_is_passed_in_one_step() -> None:
    """Step by step this would take minutes."""
    text = b"a" * (4 << 20) + b" a\n"
    assert with_text(text, 0, len(text) - 1, Text(Seek.WORD, "a")) == {0}
    assert with_text(text[:-3] + b"\n", 0, len(text) - 3, Text(Seek.WORD, "a")) == set()
