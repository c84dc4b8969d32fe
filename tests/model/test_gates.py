"""Gates: a match means the same here and as a pattern of PostgreSQL, and can be written down and read back."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.gates import LONGEST_LABEL, MOST_LABELS, Effect, Gate, Match, label, labels, match, scope
from rota.model.limits import LONGEST_NAME
from rota.model.times import DAY, aware
from rota.views.admission import GateView

# What stores can hold. SQLite reads U+FFFE and U+FFFF as U+FFFD; no name has them, they are not printable.
stored = st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufffe\uffff")
tricky = st.text(st.sampled_from("ab*?[]^-!%_\\.\n ä\U0001f600") | stored, max_size=12)
names = st.text(max_size=30).filter(lambda text: text.isprintable() and text == text.strip() != "")
near = st.text(st.sampled_from("a,:\\*? "), min_size=1, max_size=8).filter(lambda text: text == text.strip())
some_labels = st.text(st.sampled_from("abcß09-_.:/=@"), min_size=1, max_size=LONGEST_LABEL)
matches = st.builds(
    Match,
    task=st.none() | names | near,
    queue=st.none() | st.text(st.sampled_from("aZ9é-_.@"), min_size=1, max_size=100),
    user=st.none() | names | near,
    label=st.none() | some_labels,
)


def fits(glob: str, task: str) -> bool:
    return Match(task=glob).fits(task=task, queue="default", user="eve", labels=())


def postgres_like(pattern: str | None, text: str) -> bool:
    """LIKE as PostgreSQL documents it, by trying everything."""
    assert pattern is not None
    asked: str = pattern

    @cache
    def matches_from(p: int, t: int) -> bool:
        if p == len(asked):
            return t == len(text)
        if asked[p] == "%":
            return matches_from(p + 1, t) or (t < len(text) and matches_from(p, t + 1))
        if asked[p] == "\\":
            assert p + 1 < len(asked), "LIKE pattern must not end with escape character"
            return t < len(text) and text[t] == asked[p + 1] and matches_from(p + 2, t + 1)
        return t < len(text) and asked[p] in ("_", text[t]) and matches_from(p + 1, t + 1)

    return matches_from(0, 0)


def agree(glob: str, task: str) -> bool:
    found, rule = fits(glob, task), Match(task=glob)
    assert postgres_like(rule.like, task) == found
    return found


@given(tricky, tricky)
@example("[a]", "a")
@example("[[]", "[")
@example("a%", "abc")
@example("a_", "ab")
@example("a\\", "a\\")
@example("*\n?", "x\n\n")
@example("A", "a")
def test_any_glob_means_the_same_in_both_places(glob: str, task: str) -> None:
    agree(glob, task)


@given(st.lists(st.tuples(st.sampled_from("*? "), tricky), max_size=5), tricky)
def test_a_glob_made_from_a_text_fits_it_in_both_places(pieces: list[tuple[str, str]], end: str) -> None:
    """Random pairs seldom fit: here each star stands for the text next to it, and each ? for its first character."""
    plain = re.compile(r"[*?]")
    glob, task = "", ""
    for kind, text in pieces:
        shown = plain.sub("x", text)
        task += shown
        glob += "*" if kind == "*" else "?" + shown[1:] if kind == "?" and shown else shown
    assert agree(glob + end, task + end)


@given(tricky)
def test_a_star_fits_everything_and_a_name_fits_itself(task: str) -> None:
    assert agree("*", task)
    assert agree(task, task)
    assert agree("?" * len(task), task)
    assert not agree("?" * (len(task) + 1), task)


@given(st.text(st.sampled_from("ab"), max_size=14), st.text(st.sampled_from("ab*?"), max_size=10))
def test_stars_find_their_way_among_repeats(task: str, glob: str) -> None:
    agree(glob, task)


def test_a_glob_full_of_stars_is_judged_at_once() -> None:
    """By plain trying this would take longer than the sun has left."""
    assert not fits("*a" * 99 + "*b", "a" * 200)
    assert fits("*a" * 99 + "*a", "a" * 200)
    assert not fits("*?a" * 60 + "b", "a" * 200)


def test_the_pattern_is_written_as_postgresql_wants_it() -> None:
    rule = Match(task=r"a_b%c\d.[x]*?")
    assert rule.like == r"a\_b\%c\\d.[x]%_"
    assert Match(queue="mail").like is None


JOB: dict[str, Any] = {"task": "mail.welcome", "queue": "mail", "user": "eve", "labels": ("db", "nightly")}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Match(), True),
        (Match(task="mail.*"), True),
        (Match(task="mail"), False),
        (Match(task="MAIL.*"), False),
        (Match(queue="mail"), True),
        (Match(queue="mai?"), False),
        (Match(queue="m*"), False),
        (Match(user="eve"), True),
        (Match(user="adam"), False),
        (Match(label="db"), True),
        (Match(label="d"), False),
        (Match(label="other"), False),
        (Match("mail.*", "mail", "eve", "nightly"), True),
        (Match("mail.*", "mail", "eve", "other"), False),
        (Match("mail.*", "mail", "adam", "nightly"), False),
        (Match("mail.*", "default", "eve", "nightly"), False),
        (Match("x", "mail", "eve", "nightly"), False),
    ],
)
def test_all_that_is_given_must_fit_and_only_tasks_are_globs(rule: Match, expected: bool) -> None:
    assert rule.fits(**JOB) is expected


@given(matches)
def test_a_match_is_said_and_read_back_as_a_scope(rule: Match) -> None:
    assert scope(rule.scope()) == rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("all", Match()),
        (" all ", Match()),
        ("queue:mail", Match(queue="mail")),
        ("task:report.*", Match(task="report.*")),
        ("user:eve", Match(user="eve")),
        ("label:db", Match(label="db")),
        ("label:a:b", Match(label="a:b")),
        ("queue:mail,label:db", Match(queue="mail", label="db")),
        ("label:db, queue:mail", Match(queue="mail", label="db")),
        ("task:all", Match(task="all")),
        (r"task:a\,b,user:c\\", Match(task="a,b", user="c\\")),
        (r"task:a\b\x", Match(task=r"a\b\x")),
    ],
)
def test_scopes_as_people_write_them(text: str, rule: Match) -> None:
    assert scope(text) == rule


BAD_SCOPES: list[object] = [
    "", " ", ",", "mail", "queue", "queue:", "queue: ", ":mail", "Queue:mail", "colour:red", "everything",
    "all,queue:mail",
    "queue:mail,", ",queue:mail", "queue:a,queue:a", "queue:mail,all", "queue:a ,label:b", "label:a b", "queue:a\0",
    "user:\ud800", "task:" + "x" * 201, "label:" + "x" * 101, "queue:a," * 100_000, "\\" * 1_000_001,
    None, True, 7, 10**30, b"all", ["all"], {},
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_SCOPES, ids=lambda text: repr(text)[:20])
def test_what_is_no_scope_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^(scope|queue|user|task|label): ") as caught:
        scope(text)
    assert len(str(caught.value)) < 400


@given(st.text() | st.text(st.sampled_from("taskqueuelabel:,\\ *al"), max_size=20))
def test_any_text_is_a_scope_or_refused(text: str) -> None:
    try:
        found = scope(text)
    except InvalidInput:
        return
    assert scope(found.scope()) == found


def test_matches_are_said_in_words() -> None:
    assert (
        Match("mail.*", "default", "eve", "nightly").text() == "task mail.* in queue default, label nightly, user eve"
    )
    assert Match(queue="mail", label="db").text() == "queue mail, label db"
    assert Match(task="x", user="eve").text() == "task x, user eve"
    assert Match(label="db").text() == "label db"
    assert Match().text() == "everything"


def test_a_match_is_made_from_what_is_given() -> None:
    assert match(queue="mail", label=None) == Match(queue="mail")
    assert match(task="a*", queue="q", user="u", label="l", everything=False) == Match("a*", "q", "u", "l")
    assert match(everything=True) == match(everything=True, task=None) == Match()
    assert match(task="x" * LONGEST_NAME).task == "x" * LONGEST_NAME


@pytest.mark.parametrize(
    "wrong",
    [{}, {"everything": False}, {"task": None}, {"everything": True, "task": "a"}, {"colour": "red"}, {"colour": None}],
    ids=repr,
)
def test_a_match_that_says_nothing_or_too_much_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"^match: .* at least one of task, queue, user, label, or everything$"):
        match(**wrong)


@pytest.mark.parametrize("everything", [1, 0, "yes", "", [], 10**30], ids=repr)
def test_everything_is_yes_or_no(everything: object) -> None:
    with pytest.raises(InvalidInput, match=r"^everything: "):
        match(everything=everything)


BAD_TEXTS: list[object] = [
    "",
    " ",
    " a",
    "a ",
    "a\0",
    "\ud800",
    "a\nb",
    "\uffff",
    "x" * 201,
    "x" * 10**6,
    True,
    7,
    10**30,
    b"a",
    ["a"],
]


@pytest.mark.parametrize("kind", ["task", "queue", "user", "label"])
@pytest.mark.parametrize("text", BAD_TEXTS, ids=lambda text: repr(text)[:20])
def test_texts_that_no_store_could_match_are_refused(kind: str, text: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        match(**{kind: text})
    assert caught.value.what == kind
    assert len(str(caught.value)) < 400


def test_a_gate_is_shown_with_times_that_people_read() -> None:
    gate = Gate(
        id="g1", match=Match(task="mail.*"), effect=Effect.PAUSE, reason="server", author="eve", created_at=aware(0)
    )
    shown = msgspec.to_builtins(GateView.of(gate))
    assert shown == {
        "id": "g1",
        "match": {"task": "mail.*", "queue": None, "user": None, "label": None},
        "effect": "pause",
        "reason": "server",
        "author": "eve",
        "created_at": "1970-01-01T00:00:00.000000+00:00",
        "until": None,
        "job": None,
        "held": 0,
        "dropped": 0,
        "matches": "task mail.*",
    }
    until = GateView.of(msgspec.structs.replace(gate, until=aware(DAY))).until
    assert until == "1970-01-02T00:00:00.000000+00:00"
    assert msgspec.json.decode(msgspec.json.encode(gate), type=Gate) == gate


@pytest.mark.parametrize("text", ["a", "db", "team:mail/eu-1", "a=b@c.d_e", "größe", "7", "x" * LONGEST_LABEL])
def test_labels_are_taken_as_they_are(text: str) -> None:
    assert label(text) == text
    assert labels(text) == (text,)


BAD_LABELS: list[object] = [
    "", " ", "a b", "a,b", "a*", "a?", "a\\", "a%", "a\0", "\ud800", "a\n", "x" * (LONGEST_LABEL + 1), "x" * 10**6,
    None, True, 7, 10**30, b"a", ["a"],
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_LABELS, ids=lambda text: repr(text)[:20])
def test_what_is_no_label_is_refused_wherever_it_stands(text: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^label: .* letters, digits and -_.:/=@, 1 to 100 of them$"):
        label(text)
    with pytest.raises(InvalidInput, match=r"^label: "):
        labels(["good", text])


@given(st.lists(some_labels, max_size=MOST_LABELS))
def test_labels_are_sorted_and_each_stands_once(given: list[str]) -> None:
    found = labels(given)
    assert list(found) == sorted(set(given))
    assert labels(tuple(given)) == labels(set(given)) == labels(frozenset(given)) == labels(found) == found


def test_there_is_a_most_number_of_different_labels() -> None:
    many = [f"l{n}" for n in range(MOST_LABELS)]
    assert len(labels(many * 3)) == MOST_LABELS
    with pytest.raises(InvalidInput, match="at most 20 labels"):
        labels([*many, "more"])


@pytest.mark.parametrize(
    "given", [None, True, 7, 10**30, b"a", {"a": 1}, iter(["a"])], ids=lambda given: type(given).__name__
)
def test_what_is_no_list_of_labels_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match=r"^labels: "):
        labels(given)
