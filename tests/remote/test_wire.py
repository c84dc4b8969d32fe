"""Every verb of the contract travels: arguments arrive as they were given, and answers as the store gave them."""

from __future__ import annotations

import random
from typing import Any, get_type_hints

import pytest

from rota.errors import InvalidInput
from rota.model.job import NewJob, Spec
from rota.remote.wire import Call, calls
from rota.store.base import Store
from rota.store.verbs import verbs
from tests.remote.values import made

CALLS = calls()
ROUNDS = 12


def same(one: Any, other: Any) -> bool:
    """Errors have no equality of their own. A sequence may arrive as a list."""
    if isinstance(one, Exception):
        return type(one) is type(other) and (one.args, vars(one)) == (other.args, vars(other))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def hints(call: Call) -> dict[str, Any]:
    return get_type_hints(getattr(Store, call.name))


def test_every_verb_is_a_call() -> None:
    assert CALLS.keys() == verbs(Store).keys()


@pytest.mark.parametrize("name", CALLS)
def test_arguments_arrive_as_they_were_given(name: str) -> None:
    call, chance = CALLS[name], random.Random(name)
    for _ in range(ROUNDS):
        given = {one: made(hints(call)[one], chance) for one in call.names}
        found = call.decode_arguments(call.encode_arguments((), given))
        assert found.keys() == given.keys()
        assert all(same(given[one], found[one]) for one in given), (given, found)


@pytest.mark.parametrize("name", CALLS)
def test_answers_arrive_as_they_were_given(name: str) -> None:
    call, chance = CALLS[name], random.Random(name)
    for _ in range(ROUNDS):
        given = made(hints(call)["return"], chance)
        assert same(given, call.decode_answer(call.encode_answer(given))), given


def test_arguments_may_be_given_by_place_and_left_out() -> None:
    call = CALLS["replay"]
    assert call.decode_arguments(call.encode_arguments((["a", "b"],), {})) == {"ids": ["a", "b"], "again": False}
    assert call.decode_arguments(call.encode_arguments((["a"], True), {})) == {"ids": ["a"], "again": True}
    assert call.decode_arguments(call.encode_arguments((["a"],), {"again": True})) == {"ids": ["a"], "again": True}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"orders": [[{"id": 3}]]}', "$.orders[0][0].id"),
        (b'{"orders": 3}', "$.orders"),
        (b"{}", "orders"),
        (b'{"orders": [], "more": 1}', "more"),
        (b"[]", "object"),
        (b"", "truncated"),
        (b'{"orders": "\xff"}', "array"),
        (b'{"orders": ' + b"[" * 100_000, "$.orders[0][0]"),
    ],
)
def test_wrong_arguments_are_refused_with_their_place(body: bytes, place: str) -> None:
    with pytest.raises(InvalidInput, match="arguments of submit") as wrong:
        CALLS["submit"].decode_arguments(body)
    assert place in str(wrong.value)


def test_the_refusal_does_not_repeat_the_body() -> None:
    job = NewJob("a", "t", Spec.http("GET", "https://example.com/", {"Authorization": "secret-word"}))
    body = CALLS["submit"].encode_arguments(([[job]],), {}).replace(b'"task":"t"', b'"task":7')
    with pytest.raises(InvalidInput) as wrong:
        CALLS["submit"].decode_arguments(body)
    assert "secret-word" not in str(wrong.value)


def test_a_value_that_checks_itself_is_refused_with_its_own_words() -> None:
    with pytest.raises(InvalidInput, match="calendar closed: '1969-01-01' is not valid; expected dates from 1970"):
        CALLS["put_calendar"].decode_arguments(b'{"calendar": {"name": "closed", "dates": ["1969-01-01"]}}')
