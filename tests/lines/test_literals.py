"""The words that every match of an expression has."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rota.lines.literals import in_regex
from rota.lines.words import words_of
from rota.model.query.words import regex


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"connection", []),
        (r" connection ", [["connection"]]),
        (r"^ERROR ", [["ERROR"]]),
        (r"^ERROR", [["ERROR*"]]),
        (r"timeout$", []),
        (r"\btimeout\b", [["timeout"]]),
        (r"\btime", [["time*"]]),
        (r"user=\d+ took", [["took*"]]),
        (r"(?i)\btimeout\b", [["timeout"]]),
        (r"(?i)\brisk\b", [["ri*"]]),
        (r"\b(foo|bar)\b", []),
        (r"\bfoo\b|\bbar\b", [["foo", "bar"]]),
        (r"\b(?:\bfoo\b|\bbar\b) baz ", [["foo", "bar"], ["baz"]]),
        (r"(\bfoo\b)?", []),
        (r"(\bfoo\b)+", [["foo"]]),
        (r"(\bfoo\b){0,3}", []),
        (r"(\bfoo\b){2}", [["foo"]]),
        (r" foo? ", [["fo*"]]),
        (r" foo *bar ", [["foo*"]]),
        (r" foo +bar ", [["foo"], ["bar"]]),
        (r" foo. ", [["foo*"]]),
        (r" foo[ ] ", [["foo*"]]),
        (r"\.foo\.", [["foo"]]),
        (r"éfooé", [["foo"]]),
        (r" a{,2}b ", [["a"], ["2"], ["b"]]),
        (r"\Q foo \E", []),
        (r"\pL foo ", []),
        (r" \x41 foo ", []),
        (r"(?P<name> foo )(?:x|y)", [["foo"]]),
        (r"(?s-m) foo ", [["foo"]]),
        (r"[]a] foo [^]b] ", [["foo"]]),
        (r"[[:alpha:]] foo ", [["foo"]]),
        ("(" * 900 + " foo " + ")" * 900, []),
    ],
)
def test_words_between_certain_borders_count(pattern: str, found: list[list[str]]) -> None:
    regex(pattern)
    said = [[one.text + "*" * (not one.whole) for one in group] for group in in_regex(pattern)]
    assert sorted(said) == sorted(found)


def test_many_alternatives_take_little_time() -> None:
    in_regex("|".join(r"(\ba\b|\bb\b) \bc\b \bd\b" for _ in range(300)))


def test_the_deepest_nesting_makes_no_statement() -> None:
    assert in_regex("(" * 5_000 + ")" * 5_000) == []


LETTERS = "a k S foo é ſ . = _ { "
ESCAPED = r"\b \B \s \S \W \w \d \. \A \z \t [^a] [ab] ^ $ "
OPERATORS = "( ) (?: (?i) (?i: | * + ? {2} {0,1} {,2} +?"
parts = st.sampled_from([" ", *(LETTERS + ESCAPED + OPERATORS).split()])
texts = st.lists(st.sampled_from(["a", "k", "S", "foo", "é", "ſ", "K", " ", ".", "=", "_", "\t", "2", "{", ",", "}"]))


@given(st.lists(parts, max_size=12).map("".join), st.lists(texts.map("".join), min_size=5, max_size=20))
def test_no_match_is_without_them(pattern: str, lines: list[str]) -> None:
    try:
        compiled = regex(pattern)
    except ValueError:
        assume(False)
    groups = in_regex(pattern)
    for line in lines:
        if compiled.search(line) is None:
            continue
        words = words_of(line.encode())
        for group in groups:
            assert any(
                one.text.lower().encode() in words
                if one.whole
                else any(word.startswith(one.text.lower().encode()) for word in words)
                for one in group
            ), (pattern, line, re.escape(line))
