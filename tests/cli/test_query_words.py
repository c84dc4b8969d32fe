"""What a shell delivers, as the text of one query; and words that look like options."""

from __future__ import annotations

import pytest

from rota.cli.main import parse
from rota.cli.query_words import query_text
from rota.errors import InvalidQuery
from rota.model.query.fields import Searched
from rota.model.query.parse import parse as parse_query


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], ""),
        (["state:failed", "user:ann"], "state:failed user:ann"),
        (["state:failed user:ann"], "state:failed user:ann"),
        (["connection refused", "task:mail.*"], '"connection refused" task:mail.*'),
        (["connection", "refused"], "connection refused"),
        (["task:a OR task:b"], "task:a OR task:b"),
        (["timeout OR refused"], "timeout OR refused"),
        (["timeout or refused"], '"timeout or refused"'),
        (["NOT refused"], "NOT refused"),
        (["(refused", "timeout)"], "(refused timeout)"),
        (['"connection refused"'], '"connection refused"'),
        (["refus* now"], "refus* now"),
        (["2 * 3"], "2 * 3"),
        (["/timed? out/i"], "/timed? out/i"),
        (["GET /index.html failed"], '"GET /index.html failed"'),
        (["-user:ann state:failed"], "-user:ann state:failed"),
        (["error - refused"], '"error - refused"'),
        (["from http://host failed"], '"from http://host failed"'),
        (["at 12:30:01 it failed"], '"at 12:30:01 it failed"'),
        (["args.name:ann took>5m"], "args.name:ann took>5m"),
        (["took > 5m"], "took > 5m"),
        (["error: connection refused"], "error: connection refused"),
        (["level>=warning refused"], "level>=warning refused"),
        (["two\nlines of\ttext"], '"two\\nlines of\\ttext"'),
        (["", "state:failed"], " state:failed"),
    ],
)
def test_words_are_one_query(words: list[str], text: str) -> None:
    assert query_text(words) == text


@pytest.mark.parametrize("word", ["connection refused", "a b", "x = 5", "50 % of it", "naïve café", "a, b: c"])
def test_a_phrase_can_be_read_as_one(word: str) -> None:
    parse_query(query_text([word]), 0, Searched.OUTPUT)


def test_a_slip_is_told_and_is_no_phrase() -> None:
    with pytest.raises(InvalidQuery, match="blanks go around no operator"):
        parse_query(query_text(["took > 5m"]), 0)
    with pytest.raises(InvalidQuery, match='a value of "error" is missing here'):
        parse_query(query_text(["error: connection refused"]), 0)


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (["-user:ann"], ["-user:ann"]),
        (["state:failed", "--limit", "3", "-user:ann", "refused"], ["state:failed", "-user:ann", "refused"]),
        (["--limit", "3", "task:a", "--json", "task:b"], ["task:a", "task:b"]),
        (['-args."a b".c>3', "-(a OR b)", '-"a b"', "-/x/"], ['-args."a b".c>3', "-(a OR b)", '-"a b"', "-/x/"]),
        (["-task!=x", "-error!~y", "-took<1s"], ["-task!=x", "-error!~y", "-took<1s"]),
        ([], []),
    ],
)
def test_conditions_are_no_options(words: list[str], query: list[str]) -> None:
    assert parse(["job", "list", *words]).query == query


def test_words_of_changes_stand_anywhere() -> None:
    args = parse(["job", "cancel", "--all", "-user:ann", "--dry-run", "state:ready"])
    assert (args.ids, args.all, args.dry_run) == (["-user:ann", "state:ready"], True, True)
    args = parse(["job", "priority", "abc", "--yes", "3"])
    assert (args.ids, args.priority) == (["abc", "3"], None)
    args = parse(["job", "list", "--sort", "-finished", "--error", "-mail:y"])
    assert (args.sort, args.error, args.query) == ("-finished", "-mail:y", [])


@pytest.mark.parametrize("word", ["-x", "--user:ann", "-user", "--nonsense"])
def test_options_that_are_not_there_are_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["job", "list", "state:failed", word])
    assert f"unrecognized arguments: {word}" in capsys.readouterr().err


def test_verbs_without_a_query_take_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["node", "list", "-user:ann"])
    assert "unrecognized arguments: -user:ann" in capsys.readouterr().err
