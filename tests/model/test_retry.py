"""When to try again: how often, how long to wait, and which error changes that."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.retry import FATAL, MOST_RETRIES, Backoff, Retry, backoff, names_of, qualified
from rota.model.times import HOUR, LONGEST, MINUTE, SECOND, short

durations = st.integers(0, LONGEST)
failures = st.integers(1, MOST_RETRIES)
chances = st.floats(0, 1, exclude_max=True)
jitters = st.floats(0, 1)
rising = st.sampled_from(["linear", "exponential"])


class Trouble(Exception):
    class Inner(Exception):
        pass


class Network(Trouble):
    pass


class Refused(Network, ConnectionError):
    pass


@pytest.mark.parametrize(
    ("text", "shape", "first", "limit"),
    [
        ("30s", "fixed", 30 * SECOND, 30 * SECOND),
        ("fixed 30s", "fixed", 30 * SECOND, 30 * SECOND),
        ("2s..10m", "exponential", 2 * SECOND, 10 * MINUTE),
        ("exponential 2s..10m", "exponential", 2 * SECOND, 10 * MINUTE),
        ("exponential 2s", "exponential", 2 * SECOND, LONGEST),
        ("linear 5s..1m", "linear", 5 * SECOND, MINUTE),
        ("linear 5s", "linear", 5 * SECOND, LONGEST),
        ("0.5s..1h30m", "exponential", SECOND // 2, HOUR + 30 * MINUTE),
        ("1m..1m", "exponential", MINUTE, MINUTE),
        ("  linear   5s..1m\n", "linear", 5 * SECOND, MINUTE),
        ("0s", "fixed", 0, 0),
    ],
)
def test_backoffs_are_read(text: str, shape: str, first: int, limit: int) -> None:
    assert msgspec.structs.astuple(backoff(text)) == (shape, first, limit)


@given(rising, durations, durations)
def test_a_backoff_is_what_was_written(shape: str, one: int, other: int) -> None:
    first, limit = sorted((one, other))
    text = f"{shape} {short(first)}..{short(limit)}"
    assert msgspec.structs.astuple(backoff(text)) == (shape, first, limit)


@given(durations, durations)
def test_a_first_wait_longer_than_the_longest_is_refused(one: int, other: int) -> None:
    assume(one != other)
    with pytest.raises(InvalidInput, match="the first wait is longer than the longest"):
        backoff(f"{short(max(one, other))}..{short(min(one, other))}")


BAD_BACKOFFS = [
    "",
    " ",
    "soon",
    "fatal",
    "fixed",
    "linear",
    "5",
    "-5s",
    "5s..",
    "..5s",
    "..",
    "5s...1m",
    "5s..1m..1h",
    "5s .. 1m",
    "5s-1m",
    "cubic 5s",
    "Linear 5s",
    "linear5s",
    "linear linear 5s",
    "1..2s",
    "nans..1m",
    "5s..infs",
    "5s..36601d",
    "\u0665s",
    "5s..\u0665m",
    "5s\0",
    "9" * 400 + "s",
]


@pytest.mark.parametrize("text", BAD_BACKOFFS)
def test_what_is_no_backoff_is_refused_wherever_it_stands(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^backoff: .* expected a back-off such as 30s \(fixed\)") as caught:
        backoff(text)
    assert caught.value.given == text
    with pytest.raises(InvalidInput, match=r"^backoff: "):
        Retry(backoff=text)
    if text != FATAL:
        with pytest.raises(
            InvalidInput, match=r"^retry rule of ValueError: .* expected 'fatal', or a back-off such as"
        ):
            Retry(rules={"ValueError": text})


@given(st.text(alphabet="0123456789.smhd linearfxpot\u0663\n", max_size=20) | st.text())
def test_any_text_is_a_usable_backoff_or_refused(text: str) -> None:
    try:
        found = backoff(text)
    except InvalidInput:
        return
    assert 0 <= found.first <= found.limit <= LONGEST


@given(rising, durations, durations, failures, failures)
@example("exponential", 1, LONGEST, 62, 63)
@example("exponential", 1, LONGEST, 63, 64)
@example("exponential", 2 * SECOND, LONGEST, 1, MOST_RETRIES)
def test_waits_grow_with_every_failure_up_to_the_limit(shape: Any, one: int, other: int, early: int, late: int) -> None:
    wait = Backoff(shape, min(one, other), max(one, other))
    early, late = sorted((early, late))
    assert wait.delay(1) == wait.first
    assert wait.first <= wait.delay(early) <= wait.delay(late) <= wait.limit


@given(durations, failures)
def test_a_fixed_wait_stays_the_same(first: int, count: int) -> None:
    assert Backoff("fixed", first, first).delay(count) == first


@given(st.integers(1, 10**6), st.integers(1, 30))
def test_the_shapes_are_what_their_names_say(first: int, count: int) -> None:
    assert Backoff("linear", first, LONGEST).delay(count) == first * count
    assert Backoff("exponential", first, LONGEST).delay(count) == first * 2 ** (count - 1)


@given(st.integers(1, LONGEST), st.integers(64, MOST_RETRIES + 1))
def test_many_failures_reach_the_limit_at_once(limit: int, count: int) -> None:
    assert Backoff("exponential", 1, limit).delay(count) == limit


def test_the_documented_example() -> None:
    retry = Retry(5, backoff="2s..10m", jitter=0)
    waits = [retry.after_failure(count, (), 0.5) for count in range(1, 7)]
    assert waits == [2 * SECOND, 4 * SECOND, 8 * SECOND, 16 * SECOND, 32 * SECOND, None]


@given(st.integers(0, 200), chances)
def test_there_are_exactly_as_many_attempts_as_retries_and_the_first(retries: int, chance: float) -> None:
    retry = Retry(retries, backoff="1s")
    more = itertools.takewhile(lambda n: retry.after_failure(n, (), chance) is not None, itertools.count(1))
    assert 1 + len(list(more)) == retries + 1


@given(st.integers(0, MOST_RETRIES), failures)
@example(MOST_RETRIES, MOST_RETRIES)
@example(0, 1)
def test_there_is_a_next_attempt_exactly_while_failures_are_within_the_retries(retries: int, count: int) -> None:
    assert (Retry(retries).after_failure(count, (), 0) is None) == (count > retries)


@given(rising, durations, durations, failures, jitters, chances)
@example("exponential", LONGEST, LONGEST, 1, 1.0, 0.999)
def test_jitter_never_shortens_and_adds_at_most_its_part(
    shape: str, one: int, other: int, count: int, jitter: float, chance: float
) -> None:
    text = f"{shape} {short(min(one, other))}..{short(max(one, other))}"
    plain = backoff(text).delay(count)
    found = Retry(MOST_RETRIES, text, jitter).after_failure(count, (), chance)
    assert found is not None
    assert type(found) is int
    assert plain <= found <= min(plain + plain * jitter, LONGEST)


@given(durations, failures)
def test_without_jitter_or_with_no_luck_the_wait_is_the_backoff(first: int, count: int) -> None:
    text = f"fixed {short(first)}"
    assert Retry(MOST_RETRIES, text, 0).after_failure(count, (), 0.999) == first
    assert Retry(MOST_RETRIES, text, 1).after_failure(count, (), 0.0) == first


def test_jitter_spreads_what_failed_together() -> None:
    retry = Retry(1, "10s", jitter=0.5)
    waits = [retry.after_failure(1, (), chance / 10) for chance in range(10)]
    assert waits == [10 * SECOND + SECOND // 2 * n for n in range(10)]


@pytest.mark.parametrize(
    "rule",
    [Network, qualified(Network), "Network"],
    ids=["class", "name with module", "name alone"],
)
def test_a_rule_names_an_exception_by_class_or_by_name(rule: Any) -> None:
    retry = Retry(3, "30s", 0, rules={rule: "1s"})
    assert retry.after_failure(1, names_of(Network), 0) == SECOND
    assert retry.after_failure(1, names_of(Refused), 0) == SECOND, "a subclass counts"
    assert retry.after_failure(1, names_of(Trouble), 0) == 30 * SECOND, "a base doesn't"
    assert retry.after_failure(1, names_of(ValueError), 0) == 30 * SECOND, "nor does a stranger"


def test_a_rule_for_a_name_in_another_module_does_not_match() -> None:
    retry = Retry(3, "30s", 0, rules={"elsewhere.Network": FATAL})
    assert retry.after_failure(1, names_of(Network), 0) == 30 * SECOND


@pytest.mark.parametrize("turned", [False, True])
def test_the_nearest_class_decides_in_whatever_order_rules_are_written(turned: bool) -> None:
    rules: list[tuple[str | type[BaseException], str]] = [
        (Exception, "4s"),
        (Trouble, "3s"),
        (Network, "2s"),
        (Refused, FATAL),
    ]
    retry = Retry(3, "30s", 0, rules=dict(reversed(rules) if turned else rules))
    expected = {Refused: None, Network: 2 * SECOND, Trouble: 3 * SECOND, ValueError: 4 * SECOND}
    found = {error: retry.after_failure(1, names_of(error), 0) for error in expected}
    assert found == expected
    assert retry.after_failure(1, names_of(KeyboardInterrupt), 0) == 30 * SECOND, "not an Exception"


def test_with_two_bases_the_order_of_python_itself_decides() -> None:
    retry = Retry(3, "30s", 0, rules={ConnectionError: "1s", Trouble: "2s"})
    assert Refused.__mro__.index(Trouble) < Refused.__mro__.index(ConnectionError)
    assert retry.after_failure(1, names_of(Refused), 0) == 2 * SECOND


def test_a_name_with_its_module_beats_the_name_alone() -> None:
    retry = Retry(3, "30s", 0, rules={"Network": "1s", qualified(Network): "2s"})
    assert retry.after_failure(1, names_of(Network), 0) == 2 * SECOND


@given(st.integers(1, 100), failures, chances)
def test_fatal_means_no_further_attempt_however_many_are_left(retries: int, count: int, chance: float) -> None:
    retry = Retry(retries, rules={ValueError: FATAL})
    assert retry.after_failure(count, names_of(UnicodeDecodeError), chance) is None


def test_a_rule_of_its_own_waits_longer_but_gives_no_more_attempts() -> None:
    retry = Retry(2, "1s", 0, rules={Network: "linear 1m..1h"})
    waits = [retry.after_failure(count, names_of(Network), 0) for count in (1, 2, 3)]
    assert waits == [MINUTE, 2 * MINUTE, None]


def test_names_go_from_the_nearest_base_to_the_farthest_without_object() -> None:
    assert names_of(FileNotFoundError) == (
        "builtins.FileNotFoundError", "FileNotFoundError",
        "builtins.OSError", "OSError",
        "builtins.Exception", "Exception",
        "builtins.BaseException", "BaseException",
    )  # fmt: skip


def test_a_nested_class_is_named_with_the_class_around_it() -> None:
    assert qualified(Trouble.Inner) == f"{__name__}.Trouble.Inner"
    retry = Retry(1, rules={"Trouble.Inner": FATAL})
    assert retry.after_failure(1, names_of(Trouble.Inner), 0) is None
    assert retry.after_failure(1, names_of(Trouble), 0) is not None


def test_classes_in_rules_become_names_so_that_they_can_be_stored() -> None:
    retry = Retry(rules={ValueError: FATAL, "KeyError": "5s"})
    assert dict(retry.rules) == {"builtins.ValueError": FATAL, "KeyError": "5s"}
    assert msgspec.json.decode(msgspec.json.encode(retry))["rules"] == dict(retry.rules)


def test_rules_of_the_caller_are_left_as_they_were() -> None:
    given: dict[str | type[BaseException], str] = {ValueError: FATAL}
    retry = Retry(rules=given)
    assert given == {ValueError: FATAL}
    given[KeyError] = FATAL
    assert dict(retry.rules) == {"builtins.ValueError": FATAL}


def test_the_defaults_are_the_documented_ones() -> None:
    assert Retry() == Retry(3, "2s..10m", 0.1, {})


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        ("retries", {"retries": -1}),
        ("retries", {"retries": MOST_RETRIES + 1}),
        ("retries", {"retries": True}),
        ("retries", {"retries": 1.0}),
        ("retries", {"retries": float("nan")}),
        ("retries", {"retries": "3"}),
        ("retries", {"retries": None}),
        ("backoff", {"backoff": 30}),
        ("backoff", {"backoff": None}),
        ("backoff", {"backoff": b"30s"}),
        ("jitter", {"jitter": -0.1}),
        ("jitter", {"jitter": 1.1}),
        ("jitter", {"jitter": float("nan")}),
        ("jitter", {"jitter": float("inf")}),
        ("jitter", {"jitter": "0.1"}),
        ("jitter", {"jitter": None}),
        ("retry rule", {"rules": {int: FATAL}}),
        ("retry rule", {"rules": {5: FATAL}}),
        ("retry rule", {"rules": {None: FATAL}}),
        ("retry rule", {"rules": {ValueError(): FATAL}}),
        ("retry rule of ValueError", {"rules": {"ValueError": "Fatal"}}),
    ],
)
def test_wrong_policies_are_refused_when_they_are_written(what: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Retry(**wrong)
    assert caught.value.what == what


def test_the_most_retries_are_taken() -> None:
    assert Retry(MOST_RETRIES).after_failure(MOST_RETRIES, (), 0) == 10 * MINUTE


@given(
    st.integers(0, MOST_RETRIES),
    st.sampled_from(["30s", "2s..10m", "linear 5s..1m"]),
    jitters,
    st.dictionaries(st.sampled_from(["ValueError", "builtins.KeyError"]), st.sampled_from([FATAL, "1m"])),
)
def test_a_policy_can_be_stored_and_read_back(retries: int, text: str, jitter: float, rules: dict[str, str]) -> None:
    retry = Retry(retries, text, jitter, {**rules})
    assert msgspec.json.decode(msgspec.json.encode(retry), type=Retry) == retry


@pytest.mark.parametrize(
    "stored", ['{"retries":-1}', '{"backoff":"soon"}', '{"jitter":2}', '{"rules":{"E":"x"}}', "{", "7"]
)
def test_a_broken_policy_is_noticed_when_it_is_read(stored: str) -> None:
    with pytest.raises((msgspec.DecodeError, InvalidInput)):
        msgspec.json.decode(stored, type=Retry)


@pytest.mark.parametrize(
    "rules", [{"E": 5}, {"E": None}, {"E": ["x"]}, {"": "fatal"}, {5: "fatal"}, None, []], ids=repr
)
def test_rules_that_make_no_sense_are_refused(rules: Any) -> None:
    with pytest.raises(InvalidInput):
        Retry(3, rules=rules)


def test_equal_policies_have_equal_parts_however_they_came_about() -> None:
    assert Retry(3, "2s..10m", float("0.1")).parts() == Retry().parts()
    assert Retry(3, jitter=1).parts() == Retry(3, jitter=1.0).parts()
    assert msgspec.json.encode(Retry(3, jitter=1).parts()) == msgspec.json.encode(Retry(3, jitter=1.0).parts())


def test_a_fixed_back_off_has_no_range() -> None:
    with pytest.raises(InvalidInput, match="no range"):
        backoff("fixed 30s..1m")


def test_names_of_classes_are_texts_that_can_be_written() -> None:
    class Odd(ValueError): ...

    Odd.__qualname__ = "Odd\ud800"
    assert "Odd\\ud800" in names_of(Odd)
    assert "".join(names_of(Odd)).isascii()
