"""Queries that can't be read: one line that points at the character and suggests."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.errors import InvalidQuery
from rota.model.query.check import DEEPEST, LONGEST, MOST_REGEXES, MOST_TERMS, TOO_MANY_REGEXES
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.model.query.tree import All, Any, How, Not, Seek, Term, Text

WRONG = [
    ("stat:x", 1, 'there is no field "stat"; did you mean "state"?'),
    ("task:a stat:x", 8, 'there is no field "stat"; did you mean "state"?'),
    ("http://x", 1, 'there is no field "http"; a text that is searched for goes in quotes'),
    ("level:error", 1, 'there is no field "level" of jobs: it is one of lines, in searches of output'),
    ("state:fial", 7, 'no state is "fial"; did you mean "failed"?'),
    ("state:failed,x", 14, 'no state is "x"; there are blocked, scheduled,'),
    ("kind:*y", 6, 'no kind is "*y"'),
    ("state:", 7, 'a value of "state" is missing here'),
    ("task:a,", 8, 'a value of "task" is missing here'),
    ("task:a, b", 8, 'a value of "task" is missing here'),
    ("task: a", 6, 'a value of "task" is missing here'),
    ("took > 5m", 6, 'the name of a field is missing before ">"; blanks go around no operator: took>5m'),
    ("took>5", 6, '"5" is no duration'),
    ("took>1m,2m", 9, '">" takes one value'),
    ("took:5m..1m", 6, "the range ends before it begins"),
    ("took:..", 6, "a range needs a beginning or an end: 3..5, ..5 or 3.."),
    ("took~5m", 5, '"took" is no text: use took:…'),
    ("priority:high", 10, '"high" is no whole number, as "priority" is'),
    ("priority:3..x", 13, '"x" is no whole number'),
    ("priority:1.5", 10, '"1.5" is no whole number'),
    ("priority:5*", 10, '"priority" is no text: it takes no * or ?'),
    ("priority:99999999999999999999", 10, '"99999999999999999999" is no whole number'),
    ("task<a", 5, '"task" has no order: use task:… or task=…'),
    ("finished>soon", 10, '"soon" is no time; expected a time such as 2027-01-01'),
    ("finished>2027-02-30", 10, '"2027-02-30" is no time'),
    ("finished>9999-12-31", 10, '"9999-12-31" is no time'),
    ("finished:-2h", 10, "that is one instant, which nothing fits: write finished>-2h or finished<-2h"),
    ("id:xyz1", 4, "an id has hexadecimal digits and hyphens; give 4 to 36 characters of its beginning or end"),
    ("id:abc", 4, "an id has hexadecimal digits and hyphens"),
    ("args:7", 1, '"args" needs the name of a value: args.NAME'),
    ("args.:7", 5, "a name is missing after the dot"),
    ("task.x:7", 5, '"task" has no parts'),
    ("args.x:99999999999999999999", 8, "a whole number has at most 64 bits"),
    ("args.x>true", 8, '"true" has no order: quote it, if the text is meant'),
    ('args.x~""', 8, "a text is missing"),
    ("task:a\\**", 6, "a pattern can't hold a * or ? that means itself"),
    ("(a", 1, 'this "(" is not closed'),
    ("a (b (c)", 3, 'this "(" is not closed'),
    ("a)", 2, 'this ")" closes nothing'),
    ("()", 2, "a condition is missing here"),
    ("a AND", 6, "a condition is missing here"),
    ("OR a", 1, "a condition is missing here"),
    ("a OR OR b", 6, "a condition is missing here"),
    ("NOT", 4, "a condition is missing here"),
    ("- a", 2, "a condition is missing here"),
    ('"abc', 1, "this quote is not closed"),
    ('task:"abc', 6, "this quote is not closed"),
    ('"a\\d"', 3, 'in quotes "\\d" means nothing; a backslash is written "\\\\"'),
    ('""', 1, "the text in quotes is empty"),
    ('"a"b', 4, "a blank is missing here, or quotes around the whole text"),
    ('"a","b"', 4, "this comma joins nothing"),
    ("task:f(x)", 7, "a blank is missing here, or quotes around the whole text"),
    ("a*b", 1, 'a "*" stands at the end of a word only'),
    ("/var/log", 1, 'a regular expression ends with "/" and a blank; a path goes in quotes: "/var/log"'),
    ("a /(/", 3, "the regular expression is not valid: missing ): ("),
    ("/(?=a)/", 1, "the regular expression is not valid: invalid perl operator: (?="),
    ("/(((a{100}){100}){100})/", 1, "the regular expression is not valid: "),
    ("a\\", 2, "a blank is missing here"),
    ("\\", 1, 'a "\\" needs a character after it'),
    ('state:"a\\nb"', 7, 'no state is "a\ufffdb"'),
    ("a \0", 3, "expected a text in UTF-8 without NUL characters"),
    ("a \ud800", 3, "expected a text in UTF-8 without NUL characters"),
]


@pytest.mark.parametrize(("query", "position", "problem"), WRONG)
def test_an_error_points_at_the_character(query: str, position: int, problem: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse(query, 1_800_000_000_000_000)
    error = caught.value
    assert (error.position, error.given, error.what) == (position, query, "query")
    assert str(error).startswith(f"query, character {position}: {problem}")
    assert "\n" not in str(error)


NOW = 1_798_891_200_000_000  # 2027-01-02T12:00Z
HOUR = 3_600_000_000
READ = [
    ("error", Text(Seek.WORD, "error")),
    ("mail.send", Text(Seek.PHRASE, "mail.send")),
    ("12:30,5", Text(Seek.PHRASE, "12:30,5")),
    ("a\\ b", Text(Seek.PHRASE, "a b")),
    ("and", Text(Seek.WORD, "and")),
    ("ORDER", Text(Seek.WORD, "ORDER")),
    ('"a\\n\\"b\\\\"', Text(Seek.PHRASE, 'a\n"b\\')),
    ('"a b"*', Text(Seek.PREFIX, "a b")),
    ("/a\\/b/i", Text(Seek.REGEX, "(?i)a/b")),
    ("-2h", Not(Text(Seek.WORD, "2h"))),
    ("--a", Text(Seek.WORD, "a")),
    ("ENDED>-1h", Term("finished", How.ABOVE, NOW - HOUR)),
    ("due<+1h", Term("due", How.BELOW, NOW + HOUR)),
    ("created>-99999h", Term("created", How.ABOVE, NOW - 99999 * HOUR)),
    ("created>-36000d", Term("created", How.ABOVE, 0)),
    ("state:waiting", Any(tuple(Term("state", How.IS, one) for one in ("blocked", "scheduled", "held", "ready")))),
    ("args.x:null", Any((Term("args", How.IS, None, ("x",)), Term("args", How.IS, "null", ("x",))))),
    ("args.x:007", Term("args", How.IS, "007", ("x",))),
    ("args.x:a..b", Term("args", How.IS, "a..b", ("x",))),
    ('args.x:"3..5"', Term("args", How.IS, "3..5", ("x",))),
    ('args."a b"."".0:x', Term("args", How.IS, "x", ("a b", "", "0"))),
    ("args.x:1..", Term("args", How.AT_LEAST, 1, ("x",))),
    ("task:**", Term("task", How.LIKE, "*")),
    ("task:*", Not(Term("task", How.IS, None))),
    ('task:""', Term("task", How.IS, "")),
    ("a b OR c", Any((All((Text(Seek.WORD, "a"), Text(Seek.WORD, "b"))), Text(Seek.WORD, "c")))),
    ("(((a)))", Text(Seek.WORD, "a")),
    ("\ta\nAND\r\nb ", All((Text(Seek.WORD, "a"), Text(Seek.WORD, "b")))),
]


@pytest.mark.parametrize(("query", "condition"), READ)
def test_a_query_is_read(query: str, condition: object) -> None:
    assert parse(query, NOW) == condition


def test_the_fields_of_lines_are_those_of_searches_of_output() -> None:
    assert parse("LEVEL>=Warning", NOW, Searched.OUTPUT) == Term("level", How.AT_LEAST, "warning")


def test_limits_are_refused_clearly() -> None:
    def problem(query: object) -> str:
        with pytest.raises(InvalidQuery) as caught:
            parse(query, NOW)
        return str(caught.value)

    assert problem(5) == problem("a" * (LONGEST + 1)) == f"query: expected a text of at most {LONGEST:,} characters"
    assert "nested too deeply" in problem("(" * 5_000)
    assert "nested too deeply" in problem("(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1))
    assert "nested too deeply" in problem("(a OR (b " * (DEEPEST // 2) + "c" + "))" * (DEEPEST // 2))
    assert problem("a " * (MOST_TERMS + 1)) == (
        f"query, character {2 * MOST_TERMS + 1}: there are too many conditions: at most {MOST_TERMS} are allowed"
    )
    assert "too many conditions" in problem("state:" + ",".join(["failed"] * (MOST_TERMS + 1)))
    assert "too many conditions" in problem("state:" + ",".join(["live"] * 50))
    assert problem("/a.b/ " * (MOST_REGEXES + 1)) == f"query, character {6 * MOST_REGEXES + 1}: {TOO_MANY_REGEXES}"
    assert "too long" in problem("task:" + "a" * 1_001)
    assert "a path has at most 10 parts" in problem("args" + ".x" * 11 + ":1")
    assert parse("(" * DEEPEST + "a" + ")" * DEEPEST, NOW) == Text(Seek.WORD, "a")
    assert parse("NOT " * 2_000 + "a", NOW) == Text(Seek.WORD, "a")


PIECES = (
    "state", "args", ".", ":", "=", "!=", "~", "<", "..", "*", "?", "-", "(", ")", '"', "\\", "/", ",", " ", "AND",
    "OR", "NOT", "a", "7", "-2h", "today", "failed", "é", "\0", "\ud800", "2027-01-01", "T25:00", "\n", "{", "%",
)  # fmt: skip


def refused(query: str, searched: Searched = Searched.JOBS) -> InvalidQuery | None:
    try:
        parse(query, NOW, searched)
    except InvalidQuery as error:
        return error
    return None


@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.text(max_size=60)))
@example('"\\')
@example("/\\")
@example("args.x:1e999999")
@example("args.x:" + "9" * 900)
@example("took>" + "9" * 900 + "d")
@example("priority:" + "٣")
@example("finished>0000-00-00")
@example("finished>-" + "9" * 30 + "d")
@example("created:2027-01-01T00:00+99:99")
def test_no_text_does_more_than_be_refused(query: str) -> None:
    for searched in Searched:
        error = refused(query, searched)
        assert error is None or error.position is None or 1 <= error.position <= len(query) + 1


@pytest.mark.parametrize(
    "query", ["(" * 9_999, '"' * 9_999, "-" * 9_999, "a." * 4_999, "/" + "\\/" * 4_999, "args" + '."x' * 2_499,
              "task:" + "*a" * 499, "NOT " * 2_499, "/" + "(a*)*" * 1_999 + "/", "task:" + "," * 9_000, "\\" * 9_999]
)  # fmt: skip
def test_a_hostile_text_takes_no_time(query: str) -> None:
    before = time.process_time()
    error = refused(query)
    assert time.process_time() - before < 0.5
    assert error is None or len(str(error)) < 500
