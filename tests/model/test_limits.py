"""Limits: rates and keys as people write them, keys filled from arguments, and which of two bounds holds."""

from __future__ import annotations

import itertools
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.limits import (
    LONGEST_SLACK,
    LONGEST_WINDOW,
    MOST_AT_ONCE,
    MOST_KEYS,
    MOST_STARTS,
    SHORTEST_SLACK,
    SHORTEST_WINDOW,
    Key,
    Limit,
    Policy,
    Rate,
    concurrency,
    effective,
    fields,
    fill,
    key_name,
    keys,
    rate,
    rate_text,
    slack,
)
from rota.model.times import DAY, HOUR, MILLISECOND, MINUTE, SECOND

rates = st.builds(Rate, st.integers(1, MOST_STARTS), st.integers(SHORTEST_WINDOW, LONGEST_WINDOW))
names = st.text(st.sampled_from("ab{}.:ä "), min_size=1, max_size=9).filter(lambda text: text == text.strip())
some_keys = st.builds(
    Key,
    st.sampled_from("abc"),
    st.none() | st.integers(1, MOST_AT_ONCE),
    st.none() | rates,
    st.sampled_from([Policy.WAIT, Policy.SKIP]),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60/1m", Rate(60, MINUTE)),
        ("10/s", Rate(10, SECOND)),
        ("10/1s", Rate(10, SECOND)),
        ("5/250ms", Rate(5, 250 * MILLISECOND)),
        ("1/10ms", Rate(1, 10 * MILLISECOND)),
        ("1/h", Rate(1, HOUR)),
        ("1/d", Rate(1, DAY)),
        ("2/m", Rate(2, MINUTE)),
        ("3/1h30m", Rate(3, HOUR + 30 * MINUTE)),
        ("3/1.5s", Rate(3, 1500 * MILLISECOND)),
        (" 60 / 1m ", Rate(60, MINUTE)),
        ("100000/31d", Rate(MOST_STARTS, LONGEST_WINDOW)),
    ],
)
def test_rates_as_people_write_them(text: str, expected: Rate) -> None:
    assert rate(text) == expected


@given(rates)
@example(Rate(1, 999_999))
@example(Rate(1, LONGEST_WINDOW - 1))
def test_a_rate_is_said_and_read_back(given: Rate) -> None:
    assert rate(rate_text(given)) == given
    assert rate(given) is given
    assert msgspec.json.decode(msgspec.json.encode(given), type=Rate) == given


def test_rates_are_said_shortly() -> None:
    assert [rate_text(rate(text)) for text in ("60/m", "10/1s", "5/250ms")] == ["60/1m", "10/1s", "5/250ms"]


BAD_RATES: list[object] = [
    "", "/", "60", "60/", "/1m", "60/1", "60/x", "60/1x", "0/1m", "-1/1m", "1.5/1m", "60/-1m", "60/0s", "60/9ms",
    "60/ms", "60/32d", "100001/1m", "60/1m/1m", "60 per minute", "60/M", "\u0666/1m", "60/\u0661m", "60/1m\0",
    "60/\ud800", "9" * 400 + "/1m", "60/" + "9" * 400 + "s", "1/" * 10**6, "1/" + "1" * 10**6,
    None, True, 60, 60.0, 10**30, b"60/1m", [60, MINUTE], (60, MINUTE), {},
    Rate(0, MINUTE), Rate(1, 0), Rate(True, MINUTE), Rate(1, 10**30), Rate(10**30, MINUTE), Rate("1", "m"),  # type: ignore[arg-type]
    Rate(1.0, MINUTE), Rate(None, None),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize("given", BAD_RATES, ids=lambda given: repr(given)[:20])
def test_what_is_no_rate_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)^rate: .* expected a number of starts per window such as") as caught:
        rate(given)
    assert caught.value.given is given
    assert len(str(caught.value)) < 300


@given(st.text() | st.text(st.sampled_from("0123456789/.smhd \u0663"), max_size=12))
def test_any_text_is_a_usable_rate_or_refused(text: str) -> None:
    try:
        found = rate(text)
    except InvalidInput:
        return
    assert 1 <= found.count <= MOST_STARTS
    assert SHORTEST_WINDOW <= found.window <= LONGEST_WINDOW


@pytest.mark.parametrize("given", [1, 2, MOST_AT_ONCE])
def test_a_concurrency_is_a_number_from_one(given: int) -> None:
    assert concurrency(given) == given


@pytest.mark.parametrize("given", [0, -1, MOST_AT_ONCE + 1, 10**30, True, 1.0, "1", None, [1], b"1"], ids=repr)
def test_every_other_concurrency_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match=r"^concurrency: .* a whole number from 1 to 100,000$"):
        concurrency(given)


BAD_NAMES: list[object] = [
    "",
    " ",
    " a",
    "a ",
    "a\0b",
    "\ud800",
    "a\n",
    "x" * 201,
    "x" * 10**6,
    None,
    True,
    7,
    10**30,
    b"a",
    ["a"],
    {},
]


@pytest.mark.parametrize("given", BAD_NAMES, ids=lambda given: repr(given)[:20])
def test_what_is_no_key_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^key: .* 1 to 200 printable characters without blanks around them$"):
        key_name(given)
    with pytest.raises(InvalidInput):
        keys([Key(given)])


@pytest.mark.parametrize("given", ["a", "user:7", "größe / eins", "x" * 200])
def test_names_of_keys_are_taken_as_they_are(given: str) -> None:
    assert key_name(given) == given


class Colour(str, Enum):  # noqa: UP042 - what older code has, and JSON carries by value
    RED = "red"


class Size(IntEnum):
    LARGE = 3


ARGUMENTS: dict[str, Any] = {
    "user_id": 7, "name": "eve", "yes": True, "no": False, "order": {"customer": {"id": 12}, "user-id": "x"},
    "none": None, "list": [1], "price": 1.5, "colour": Colour.RED, "size": Size.LARGE, "minus": -3, "braces": "{name}",
    "empty": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("user", "user"),
        ("user:{user_id}", "user:7"),
        ("{name}/{user_id}", "eve/7"),
        ("{order.customer.id}", "12"),
        ("{order.user-id}", "x"),
        ("{yes}{no}", "truefalse"),
        ("{minus}", "-3"),
        ("{colour} {size}", "red 3"),
        ("{{{name}}}", "{eve}"),
        ("{{name}}", "{name}"),
        ("{braces}", "{name}"),
        ("a{empty}", "a"),
        ("}}{{", "}{"),
    ],
)
def test_templates_are_filled_from_the_arguments(template: str, expected: str) -> None:
    assert fill(template, ARGUMENTS) == expected


@given(names)
def test_doubled_braces_are_braces(text: str) -> None:
    assert fill(text.replace("{", "{{").replace("}", "}}"), {}) == text


@given(names, names)
def test_values_stand_for_themselves_whatever_is_in_them(one: str, other: str) -> None:
    assert fill("{one}|{other}", {"one": one, "other": other}) == f"{one}|{other}"


BAD_TEMPLATES: list[object] = [
    "{", "}", "{}", "{ }", "{user_id", "user_id}", "{user_id}}", "{{user_id}", "{user_id!r}", "{user_id:>10}",
    "{user_id:}", "{list[0]}", "{order[customer]}", "{.name}", "{name.}", "{order..customer}", "{na me}", "{{{name}}",
    "{{}{name}", "{name\0}", "{\ud800}", "{" * 999, "x" * 1001, "{" * 10**6, None, True, 7, 10**30, b"x", ["x"],
]  # fmt: skip


@pytest.mark.parametrize("template", BAD_TEMPLATES, ids=lambda template: repr(template)[:20])
def test_what_is_no_template_is_refused_before_and_when_it_is_filled(template: Any) -> None:
    for read in (fields, lambda given: fill(given, ARGUMENTS)):
        with pytest.raises(InvalidInput, match=r"(?s)^key: .* a text with fields such as user:\{user_id\}") as caught:
            read(template)
        assert len(str(caught.value)) < 300


def test_fields_are_known_before_there_are_arguments() -> None:
    assert fields("{{x}} {name}:{order.customer.id}") == ("name", "order.customer.id")
    assert fields("plain") == ()


@pytest.mark.parametrize("field", ["none", "list", "price", "order", "order.customer"])
def test_values_that_make_no_name_are_refused_with_their_field(field: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^field \{{{field}\}} of the key: .* expected a text, a whole number"):
        fill(f"user:{{{field}}}", ARGUMENTS)


@pytest.mark.parametrize(
    "value", [b"x", 1j, object(), (1,), {1}, float("nan"), 10**5000, -(10**300)], ids=lambda v: str(type(v))
)
def test_hostile_values_are_refused_too(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^field \{a\} of the key: "):
        fill("{a}", {"a": value})


@pytest.mark.parametrize(
    "value", ["", " ", "a\0", "\ud800", "x" * 201, "x" * 10**6, "a\nb", 10**230], ids=lambda v: repr(v)[:20]
)
def test_what_is_filled_must_be_a_key(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^key: .* printable"):
        fill("{a}", {"a": value})


def test_a_large_number_is_a_number() -> None:
    assert fill("{a}", {"a": 10**30}) == "1" + "0" * 30


def test_an_unknown_field_is_answered_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"^field \{user\} of the key: 'user' .* expected one of 'name', 'user_id'$"):
        fill("{user}", {"user_id": 7, "name": "eve"})
    with pytest.raises(InvalidInput, match=r"^field \{order.x\} of the key: 'x' .* expected one of 'id'$"):
        fill("{order.x}", {"order": {"id": 1}})
    with pytest.raises(InvalidInput, match=r"expected no field: there are none$"):
        fill("{user}", {})
    with pytest.raises(InvalidInput, match=r"^field \{name.upper\} of the key: 'eve' .* an object that has 'upper'$"):
        fill("{name.upper}", {"name": "eve"})


def test_attributes_are_out_of_reach() -> None:
    for template in ("{a.__class__}", "{a.real}", "{a.__class__.__mro__}"):
        with pytest.raises(InvalidInput):
            fill(template, {"a": 7})


def test_the_list_of_arguments_stays_short_and_can_be_printed() -> None:
    with pytest.raises(InvalidInput) as caught:
        fill("{user}", {f"{n}\ud800" * 50: n for n in range(1000)})
    assert len(str(caught.value)) < 600
    str(caught.value).encode()


@pytest.mark.parametrize("arguments", [None, True, 7, [], "user", b"user"], ids=repr)
def test_arguments_are_a_mapping(arguments: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^arguments: "):
        fill("plain", arguments)


@given(some_keys, st.none() | st.integers(1, MOST_AT_ONCE), st.none() | rates)
def test_a_limit_replaces_both_bounds_and_nothing_else(key: Key, most: int | None, pace: Rate | None) -> None:
    assert effective(key, None) is key
    assert effective(key, Limit(key.name, most, pace)) == Key(key.name, most, pace, key.policy)


def speed(pace: Rate) -> Fraction:
    return Fraction(pace.count, pace.window)


@given(st.lists(some_keys, max_size=6))
def test_keys_are_sorted_and_the_stricter_of_each_bound_holds(given: list[Key]) -> None:
    found = keys(given)
    assert [key.name for key in found] == sorted({key.name for key in given})
    for key in found:
        same = [one for one in given if one.name == key.name]
        bounds = [one.concurrency for one in same if one.concurrency is not None]
        paces = [one.rate for one in same if one.rate is not None]
        assert key.concurrency == min(bounds, default=None)
        assert key.rate is None if not paces else key.rate in paces
        assert all(speed(key.rate) <= speed(pace) for pace in paces if key.rate)
        assert key.policy == (Policy.SKIP if any(one.policy is Policy.SKIP for one in same) else Policy.WAIT)


@given(st.lists(some_keys, max_size=5), st.randoms(use_true_random=False))
def test_the_order_in_which_keys_are_given_does_not_matter(given: list[Key], random: Any) -> None:
    shuffled = list(given)
    random.shuffle(shuffled)
    assert keys(shuffled) == keys(given) == keys(keys(given))


def test_of_two_rates_as_fast_the_one_with_smaller_bursts_holds() -> None:
    slow, bursts = Key("a", rate=rate("1/s")), Key("a", rate=rate("60/1m"))
    assert keys([slow, bursts]) == keys([bursts, slow]) == (slow,)


def test_rates_that_differ_by_next_to_nothing_are_told_apart() -> None:
    faster, slower = Rate(1, LONGEST_WINDOW - 1), Rate(1, LONGEST_WINDOW)
    assert keys([Key("a", rate=faster), Key("a", rate=slower)])[0].rate == slower


def test_waiting_gives_way_and_contradictions_are_refused() -> None:
    for asked in Policy:
        for one, other in itertools.permutations([Key("a", 1), Key("a", 1, policy=asked)]):
            assert keys([one, other]) == (Key("a", 1, None, asked),)
    for order in itertools.permutations(Policy):
        with pytest.raises(InvalidInput, match=r"^policy: 'skip and replace for key a' .* one policy for a key$"):
            keys([Key("a", policy=policy) for policy in order])


def test_there_is_a_most_number_of_different_keys() -> None:
    many = [Key(f"k{n}") for n in range(MOST_KEYS)]
    assert len(keys(many * 3)) == MOST_KEYS
    with pytest.raises(InvalidInput, match="at most 20 keys"):
        keys([*many, Key("more")])


@pytest.mark.parametrize(
    "given",
    [
        None, True, 7, "a", b"a", Key("a"), {"a": 1}, [None], ["a"], [("a", 1)], [Key("a", 0)], [Key("a", True)],
        [Key("a", 10**30)], [Key("a", rate=Rate(0, SECOND))], [Key("a", rate="60/1m")], [Key("a", policy="wait")],  # type: ignore[arg-type]
        [Key("a", policy=None)], [Key("a", "1")], [Key(["a"])],  # type: ignore[arg-type]
    ],
    ids=lambda given: repr(given)[:40],
)  # fmt: skip
def test_what_are_no_keys_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput):
        keys(given)


@given(some_keys)
def test_a_key_can_be_stored_and_read_back(key: Key) -> None:
    assert msgspec.json.decode(msgspec.json.encode(key), type=Key) == key


@given(st.integers(SHORTEST_WINDOW, LONGEST_WINDOW))
def test_the_slack_is_a_twentieth_within_its_bounds(window: int) -> None:
    found = slack(window)
    assert SHORTEST_SLACK <= found <= LONGEST_SLACK
    assert found in (window // 20, SHORTEST_SLACK, LONGEST_SLACK)
    assert slack(window + 1) >= found


def test_the_slack_of_common_windows() -> None:
    found = [slack(window) for window in (10 * MILLISECOND, SECOND, 10 * SECOND, MINUTE)]
    assert found == [20 * MILLISECOND, 50 * MILLISECOND, 500 * MILLISECOND, 500 * MILLISECOND]
