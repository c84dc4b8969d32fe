"""An error that a server answers with is the same error for its caller."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from rota import errors
from rota.errors import RotaError
from rota.remote.problems import KINDS, ErrorBody, as_body, code_of, error_from, from_body

SOME = [
    errors.InvalidInput("queue", "a b", "letters"),
    errors.InvalidInput("queue", object, "letters"),
    errors.InvalidArguments("mail", "no 'to'", ["to"]),
    errors.UnknownTask("mail", "known tasks: none"),
    errors.TooLarge("arguments", 10, 5),
    errors.KeyConflict("k", "0198"),
    errors.NotFound("job", "0198"),
    errors.NotAllowed("eve", "pause a queue"),
    errors.StoreUnavailable("locked"),
    errors.SchemaTooNew(3, 2),
    errors.SchemaMissing(1, 2),
]


def _kinds(kind: type[RotaError]) -> Iterator[type[RotaError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def test_each_error_has_a_code_of_its_own() -> None:
    own = [kind for kind in _kinds(RotaError) if kind.__module__ == "rota.errors"]
    assert set(KINDS.values()) == set(own)
    assert len({code_of(kind) for kind in own}) == len(own)
    assert KINDS["key_conflict"] is errors.KeyConflict


@pytest.mark.parametrize("error", SOME, ids=lambda error: type(error).__name__)
def test_an_error_arrives_with_its_type_message_and_fields(error: RotaError) -> None:
    sent = msgspec.json.encode(as_body(error))
    found = from_body(msgspec.json.decode(sent, type=ErrorBody))
    assert type(found) is type(error)
    assert str(found) == str(error)
    fields = vars(error) if not isinstance(vars(error).get("given"), type) else vars(error) | {"given": repr(object)}
    assert vars(found) == fields


def test_an_error_of_a_user_arrives_as_the_error_it_derives_from() -> None:
    class Special(errors.NotFound):
        pass

    assert type(from_body(as_body(Special("job", "x")))) is errors.NotFound


def test_a_code_that_is_not_known_gives_the_base() -> None:
    found = error_from("from_the_future", "something new", {"more": 1})
    assert type(found) is RotaError
    assert str(found) == "something new"
