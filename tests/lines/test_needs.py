"""What a segment must contain for a condition, and what that excludes."""

from __future__ import annotations

import pytest

from rota.lines.needs import LARGEST_GROUP, MOST_GROUPS, in_order, may_hold, needs
from rota.lines.words import filter_of, probe_prefix, probe_word, words_of
from rota.model.query.tree import EVERYTHING, NOTHING, All, Any, Condition, How, Not, Seek, Term, Text

FILTER = filter_of(words_of("ERROR mail.sender: connection refused by 10.0.0.7 für user_7, caf\ufffd".encode()))


def word(text: str) -> Text:
    return Text(Seek.WORD, text)


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        (word("Connection"), True),
        (word("connect"), False),
        (word("für"), True),
        (word("fur"), False),
        (word("caf\ufffd"), True),
        (word("other\ufffd"), True),
        (Text(Seek.PREFIX, "connec"), True),
        (Text(Seek.PREFIX, "zebra"), False),
        (Text(Seek.PREFIX, "7"), True),
        (Text(Seek.PREFIX, "9"), True),
        (Text(Seek.PREFIX, "refused by conn"), True),
        (Text(Seek.PREFIX, "absent connec"), False),
        (Text(Seek.PHRASE, "refused connection"), True),
        (Text(Seek.PHRASE, "connection reset"), False),
        (Text(Seek.PHRASE, "10.0.0.7"), True),
        (Text(Seek.PHRASE, "10.0.0.8"), False),
        (Text(Seek.PHRASE, "%%"), True),
        (Text(Seek.REGEX, r"\brefused\b"), True),
        (Text(Seek.REGEX, r"\breset\b|\bclosed\b"), False),
        (Text(Seek.REGEX, r"reset"), True),
        (All((word("connection"), word("reset"))), False),
        (Any((word("connection"), word("reset"))), True),
        (Any((word("closed"), word("reset"))), False),
        (Any((word("closed"), Text(Seek.REGEX, "x"))), True),
        (Any((All((word("refused"), word("reset"))), All((word("closed"), word("user_7"))))), False),
        (Not(word("connection")), True),
        (All((Not(word("connection")), word("reset"))), False),
        (Term("level", How.AT_LEAST, "error"), True),
        (Term("level", How.IS, "debug"), False),
        (Term("level", How.IS, None), True),
        (Term("task", How.IS, "reset"), True),
        (EVERYTHING, True),
        (NOTHING, True),
    ],
)
def test_a_segment_is_excluded_by_the_words_it_lacks(condition: Condition, held: bool) -> None:
    assert may_hold(FILTER, needs(condition)) is held


def test_groups_of_alternatives_are_known_to_databases() -> None:
    condition = All((word("a"), Any((word("b"), word("c"))), Text(Seek.PREFIX, "deed")))
    groups = in_order(needs(condition))
    assert sorted(map(len, groups)) == [1, 1, 2]
    assert {word for group in groups for word in group} == {*map(probe_word, (b"a", b"b", b"c")), probe_prefix(b"deed")}


def test_many_alternatives_stay_bounded() -> None:
    pairs = [All((word(f"a{n}"), word(f"b{n}"), word(f"c{n}"))) for n in range(60)]
    for many in (pairs[:4], pairs):
        groups = needs(Any(tuple(many)))
        assert len(groups) <= MOST_GROUPS
        assert all(len(group) <= LARGEST_GROUP for group in groups)
        holding = filter_of(words_of(b"b3 a3 c3"))
        assert may_hold(holding, groups)
    assert len(needs(All(tuple(word(f"w{n}") for n in range(100))))) == MOST_GROUPS
