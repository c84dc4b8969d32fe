"""The filter of words never misses one, and takes few for present that aren't."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.lines import words
from rota.lines.words import LONGEST_WORD, PREFIXES, filter_of, may_contain, probe_prefix, probe_word, words_of


def by_re(text: bytes) -> set[bytes]:
    words = re.findall(rb"[0-9a-zA-Z_\x80-\xff]+", text)
    return {word.lower()[:LONGEST_WORD] for word in words + re.findall(rb"[0-9a-zA-Z_]+", text)}


@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(str.encode)))
def test_words_are_runs_of_letters_and_digits_with_or_without_bytes_beyond_ascii(text: bytes) -> None:
    assert words_of(text) == by_re(text)


def test_words_across_pieces_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_PIECE", 7)
    text = b"Connection refused: 10.0.0.1:5432 " * 20 + b"x" * 100
    assert words_of(text) == by_re(text)


@given(st.sets(st.one_of(st.binary(min_size=1, max_size=70), st.text(min_size=1).map(str.encode)), max_size=200))
def test_what_is_there_is_never_missed(texts: set[bytes]) -> None:
    found = words_of(b" ".join(texts))
    filled = filter_of(found)
    for word in found:
        assert may_contain(filled, probe_word(word))
        assert may_contain(filled, probe_word(word.upper()))
        for length in range(1, len(word) + 1):
            probe = probe_prefix(word[:length].upper())
            assert probe is None or may_contain(filled, probe)


def test_few_absent_words_pass() -> None:
    filled = filter_of({b"%d" % (n * 7919) for n in range(20_000)} | {b"w%x" % n for n in range(20_000)})
    absent = [b"absent%d" % n for n in range(5_000)]
    assert sum(may_contain(filled, probe_word(word)) for word in absent) < 0.02 * len(absent)
    assert len(filled) * 8 < 40_000 * 1.02 * words.BITS_PER_WORD + words.BLOCK


def test_beginnings_of_letters_are_known_and_others_are_not() -> None:
    filled = filter_of(words_of(b"connection refused; user7; 20270101; \xc3\xbcber; _private"))
    for there in (b"con", b"connec", b"connectio", b"Refus", b"use", b"user7", "über".encode(), b"_priv"):
        probe = probe_prefix(there)
        assert probe is not None
        assert may_contain(filled, probe)
    for absent in (b"com", b"connex", b"refund", b"usa", b"zebra"):
        probe = probe_prefix(absent)
        assert probe is not None
        assert not may_contain(filled, probe)
    for unknown in (b"co", b"2027", b"u5er"):
        assert probe_prefix(unknown) is None


def test_a_word_is_not_the_beginning_of_another() -> None:
    filled = filter_of({b"connection"})
    assert not may_contain(filled, probe_word(b"conn"))


def test_a_database_finds_the_bits_where_it_is_told_to() -> None:
    """`get_bit` of PostgreSQL: bit 0 is the lowest of the first byte."""
    filled = filter_of({b"%d" % n for n in range(500)})
    probe = probe_word(b"77")
    places = [probe.block % (len(filled) // 64) * 512 + bit for bit in probe.bits]
    assert all(int.from_bytes(filled, "little") >> place & 1 for place in places)


def test_filters_stay_as_they_are_stored() -> None:
    """A change of words, hash or blocks would miss what is in the segments of today."""
    assert PREFIXES == (3, 4, 5, 6, 8)
    assert probe_word(b"Timeout") == (2168550802, (32, 130, 51, 82, 437, 166))
    assert probe_prefix(b"connected") == (2345890850, (53, 365, 101, 62, 117, 390))
    assert len(filter_of(set())) == 64
