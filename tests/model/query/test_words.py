"""Texts are looked for by words, phrases, beginnings and expressions."""

from __future__ import annotations

import time

import pytest

from rota.model.query.tree import Seek, Text
from rota.model.query.words import contains, is_word, regex, text_fits

FITS = [
    (Seek.WORD, "refused", "connection refused"),
    (Seek.WORD, "REFUSED", "connection Refused."),
    (Seek.WORD, "a_1", "(a_1)"),
    (Seek.WORD, "é", "caf é"),
    (Seek.PHRASE, "connection refused", "Connection REFUSED!"),
    (Seek.PHRASE, ".send", "mail.send"),
    (Seek.PHRASE, "10.0.0.1", "to 10.0.0.1:25"),
    (Seek.PHRASE, "a.b", "xa.b a.b"),
    (Seek.PREFIX, "ref", "was REFUSED"),
    (Seek.PREFIX, "a b", "a bc"),
    (Seek.REGEX, "a.c", "xabcx"),
    (Seek.REGEX, "(?i)ABC", "abc"),
    (Seek.REGEX, r"é\pL", "éé"),
]
MISSES = [
    (Seek.WORD, "refuse", "refused"),
    (Seek.WORD, "a", "a_1 éa aé"),
    (Seek.WORD, "É", "é"),
    (Seek.PHRASE, "10.0.0.1", "110.0.0.1 10.0.0.12"),
    (Seek.PHRASE, "axb", "a.b"),
    (Seek.PREFIX, "fused", "refused"),
    (Seek.REGEX, "^b", "ab"),
    (Seek.REGEX, "ABC", "abc"),
    (Seek.REGEX, "a.b", "a\nb"),
]


@pytest.mark.parametrize(("seek", "part", "text"), FITS)
def test_what_is_found(seek: Seek, part: str, text: str) -> None:
    assert text_fits(Text(seek, part), text)


@pytest.mark.parametrize(("seek", "part", "text"), MISSES)
def test_what_is_not_found(seek: Seek, part: str, text: str) -> None:
    assert not text_fits(Text(seek, part), text)


def test_parts_of_texts() -> None:
    assert contains("A%b_C", "%B_")
    assert not contains("É", "é")
    assert is_word("a_1é")
    assert not is_word("a b")
    assert not is_word("")


def test_no_expression_can_hang_a_search() -> None:
    before = time.process_time()
    assert not text_fits(Text(Seek.REGEX, "(a+)+$"), "a" * 50_000 + "b")
    assert time.process_time() - before < 1


def test_an_expression_has_a_bounded_size() -> None:
    with pytest.raises(ValueError, match="too large"):
        regex(r"[\pL\pN]{900}" * 20)
