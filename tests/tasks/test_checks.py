"""Messages about arguments: the name, what it must be, and the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import rota
from rota.errors import InvalidArguments, InvalidInput, NotSerialisable
from rota.tasks.checks import problem

app = rota.App()


@dataclass
class Row:
    n: int


@app.task
def load(user: int, rows: list[Row] | None = None, prices: dict[str, int] | None = None) -> list[Row]:
    return rows or []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"user": "x"}, "'user' must be int, not 'x'; it takes user, rows, prices"),
        ({}, "'user' is missing"),
        ({"user": 1, "usr": 2}, "'usr' is unknown"),
        ({"user": 1, "rows": [{"n": 1}, {"n": "x"}]}, r"'rows\[1\].n' must be int, not 'x'"),
        ({"user": 1, "rows": [{}]}, r"'rows\[0\].n' is missing"),
        ({"user": 1, "rows": 7}, r"'rows' must be array or null, not 7"),
        ({"user": 1, "prices": {"a": "x"}}, r"'prices\[...\]' must be int, not what is there"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArguments, match=f"arguments of task 'load': {said}"):
        load._definition.encode((), arguments, 1_000)


def test_other_complaints_keep_their_words() -> None:
    assert problem("Expected `int` >= 0 - at `$.n`", '{"n": -1}') == "'n': Expected `int` >= 0, not -1"
    assert problem("Input data was truncated", "{") == "Input data was truncated"


def test_a_value_that_json_can_t_carry_is_named() -> None:
    with pytest.raises(NotSerialisable, match="argument 'rows' of task 'load'"):
        load._definition.encode((), {"user": 1, "rows": [object()]}, 1_000)


def test_of_many_orders_the_wrong_one_is_named() -> None:
    with pytest.raises(InvalidArguments, match=r"^arguments\[1\]: arguments of task 'load': 'user' must be int"):
        load.submit_many_sync([{"user": 1}, {"user": "x"}])
    with pytest.raises(InvalidInput, match=r"^arguments\[0\]: 7 is not valid"):
        load.submit_many_sync([7])  # type: ignore[list-item]


def test_a_template_of_a_task_without_parameters() -> None:
    with pytest.raises(InvalidInput, match="fields of task 'bare': none, since it has no parameters"):
        app.task(name="bare", exclusive="u:{nope}")(lambda: None)


def test_values_beside_a_job_are_checked() -> None:
    job: Any = load._handle("7")
    encode = load._definition.encode_order
    for arguments, place in (
        ({"rows": [job, "x"]}, r"rows\[1\]"),
        ({"prices": {"a": job, "b": "x"}}, "prices.b"),
    ):
        with pytest.raises(InvalidArguments, match=f"'{place}' must be"):
            encode((1,), arguments, 1_000)
    body, fills = encode((job,), {"rows": [job, {"n": 1}], "prices": {"a": job, "b": 1}}, 1_000)
    assert len(fills["7"]) == 3
    assert body == '{"user":null,"rows":[null,{"n":1}],"prices":{"a":null,"b":1}}'


def test_a_job_may_be_a_further_argument() -> None:
    def further(**rest: int) -> None: ...

    encode = app.task(further)._definition.encode_order
    job: Any = load._handle("7")
    assert encode((), {"a": job, "b": 1}, 1_000) == ('{"a":null,"b":1}', {"7": (("a",),)})
    with pytest.raises(InvalidArguments):
        encode((), {"a": job, "b": "x"}, 1_000)
