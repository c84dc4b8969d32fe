"""Functions as tasks: what is read off a signature, what is refused, and what arguments become."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

import pytest

from rota.errors import InvalidInput, NotSerialisable, TooLarge, UnknownTask
from rota.model.task import TaskInfo
from rota.tasks.annotations import json_types
from rota.tasks.catalogue import Catalogue, Code, Isolation, TaskDef
from rota.tasks.checks import fits
from rota.tasks.context import Context
from rota.tasks.encoding import JobReference

PLENTY = 1_000


def info(name: str, parameters: Any, required: Any, open: bool, types: Any) -> TaskInfo:
    return TaskInfo(name, parameters, required, open=open, types=types)


def task(function: Callable[..., Any], name: str = "t", isolation: str | None = None) -> TaskDef:
    return TaskDef(function, info, name, Code.read(isolation))


@dataclass
class Point:
    x: int
    y: int = 0


def sample(when: datetime, point: Point, tags: set[str], n: int = 1, *, ctx: Context) -> None: ...


def test_the_signature_says_what_it_takes() -> None:
    made = task(sample)
    assert made.context == "ctx"
    assert (made.info.parameters, made.info.required) == (("when", "point", "tags", "n"), ("when", "point", "tags"))
    assert not made.info.open
    assert made.info.types["n"] == ("integer",)
    assert made.info.types["when"] == ("string",)


def test_orders_with_jobs_as_arguments_share_a_decoder() -> None:
    made = task(sample)
    job = JobReference("1")
    _, fills = made.encode_order((), {"when": job, "point": {"x": 1}, "tags": []}, PLENTY)
    assert list(fills) == ["1"]
    assert made._decoder_for(["when"]) is made._decoder_for({"when", "unknown"}) is not made._decoder_for(())
    with pytest.raises(InvalidInput, match="point"):
        made.encode_order((), {"when": job, "point": 1, "tags": []}, PLENTY)


def test_arguments_become_what_the_annotations_say() -> None:
    body = '{"when": "2027-01-01T00:00:00Z", "point": {"x": 1}, "tags": ["a", "a"]}'
    assert task(sample).decode(body) == {
        "when": datetime(2027, 1, 1, tzinfo=UTC),
        "point": Point(1),
        "tags": {"a"},
    }, "what has a default is left to it"


def test_arguments_are_encoded_by_place_and_by_name() -> None:
    def add(a: int, b: int = 2) -> int:
        return a + b

    made = task(add)
    assert json.loads(made.encode((1,), {"b": 3}, PLENTY)) == {"a": 1, "b": 3}
    for positional, named in (((1, 2, 3), {}), ((1,), {"a": 1}), ((), {}), (("x",), {}), ((1,), {"c": 1})):
        with pytest.raises(InvalidInput, match="'t'"):
            made.encode(positional, named, PLENTY)
    with pytest.raises(NotSerialisable):
        made.encode((object(),), {}, PLENTY)
    with pytest.raises(TooLarge):
        made.encode((10**9,), {}, 10)


def test_a_function_may_take_whatever_it_is_given() -> None:
    def anything(a: int, **rest: int) -> None: ...

    made = task(anything)
    assert made.info.open
    assert made.decode('{"a": 1, "b": 2}') == {"a": 1, "b": 2}
    with pytest.raises(InvalidInput, match="arguments of task 't'"):
        made.encode((1,), {"b": "x"}, PLENTY)


class Further(TypedDict, total=False):
    at: datetime


def test_further_arguments_are_those_of_a_typed_dict() -> None:
    def further(a: int, **rest: Unpack[Further]) -> None: ...

    assert task(further).decode('{"a": 1, "at": "2027-01-01T00:00:00Z"}')["at"] == datetime(2027, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidInput, match="arguments of task 't'"):
        task(further).encode((1,), {"at": "noon"}, PLENTY)


def test_names_that_do_not_resolve_are_told_and_their_values_passed_through() -> None:
    def odd(a: threading_lock, b: object = None) -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.warns(UserWarning, match="task 't': the annotation 'threading_lock' of a is unknown") as caught:
        made = task(odd)
    assert caught[0].filename == __file__
    assert made.decode('{"a": [1]}') == {"a": [1]}
    assert made.info.types == {}


class Engine:
    pass


@dataclass
class Car:
    engine: Engine


def test_types_that_json_can_t_be_read_into_are_refused() -> None:
    def drive(it: Any) -> None: ...

    def build() -> Any: ...

    for hint in (Engine, list[Engine], Engine | None, Car, dict[str, Car], Callable[[], None]):
        drive.__annotations__ = {"it": hint}
        with pytest.raises(InvalidInput, match=r"task 't', annotation of it: .*(Engine|Callable)"):
            task(drive)
        build.__annotations__ = {"return": hint}
        with pytest.raises(InvalidInput, match="task 't', annotation of its result"):
            task(build)


def test_a_type_that_checks_its_values_is_asked() -> None:
    @dataclass
    class Even:
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ArithmeticError("odd")

    def take(even: Even) -> None: ...

    take.__annotations__ = {"even": Even}
    assert task(take).decode('{"even": {"n": 2}}')["even"].n == 2
    with pytest.raises(InvalidInput, match="odd"):
        task(take).decode('{"even": {"n": 3}}')


@pytest.mark.parametrize("body", ["{", "[]", '{"a": "x"}', "null", b"\xff", '{"a": 1, "b": 2}'])
def test_what_does_not_fit_the_signature_is_refused(body: str | bytes) -> None:
    def one(a: int) -> None: ...

    with pytest.raises(InvalidInput, match="it takes a"):
        task(one).decode(body)


def positional_only(a: int, /) -> None: ...


def star(*args: int) -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [positional_only, star, generator, async_generator, functools.partial(generator)])
def test_functions_that_can_t_be_called_with_json_or_have_no_result_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput):
        task(function)


async def coroutine() -> None: ...


def plain() -> None: ...


@pytest.mark.parametrize(
    ("function", "isolation", "right"),
    [
        (coroutine, None, True),
        (coroutine, "inline", True),
        (coroutine, "process", True),
        (coroutine, "thread", False),
        (plain, None, True),
        (plain, "thread", True),
        (plain, "process", True),
        (plain, "inline", False),
    ],
)
def test_where_a_function_may_run_depends_on_its_kind(
    function: Callable[..., Any], isolation: str | None, right: bool
) -> None:
    if right:
        assert task(function, isolation=isolation).code.isolation == (isolation and Isolation(isolation))
    else:
        with pytest.raises(InvalidInput, match="isolation"):
            task(function, isolation=isolation)


def test_an_unknown_isolation_and_where_the_code_comes_from() -> None:
    with pytest.raises(InvalidInput, match="inline, thread, process"):
        Code.read("cellar")
    assert Code.read(None).origin == __name__


def test_names_are_unique_and_unknown_ones_are_told_with_the_known() -> None:
    catalogue = Catalogue()
    catalogue.add(task(plain, "one"))
    assert catalogue.get("one").name == "one"
    with pytest.raises(
        InvalidInput, match=r"no other task .*; tests\.tasks\.test_catalogue\.plain \(test_catalogue.py, line"
    ):
        catalogue.add(task(coroutine, "one"))
    with pytest.raises(UnknownTask, match="this app has one"):
        catalogue.get("two")
    assert (len(catalogue), [one.name for one in catalogue.infos()]) == (1, ["one"])


@pytest.mark.parametrize(
    ("hint", "kinds"),
    [
        (int, ("integer",)),
        (int | None, ("integer", "null")),
        (list[int], ("array",)),
        (Point, ("object",)),
        (Any, ()),
        (object, ()),
    ],
)
def test_hints_in_the_words_of_json(hint: Any, kinds: tuple[str, ...]) -> None:
    assert json_types(hint) == kinds


@pytest.mark.parametrize(
    ("value", "kinds", "right"),
    [
        (1, ("integer",), True),
        (1, ("number",), True),
        (1.0, ("integer",), False),
        (10**400, ("number",), False),
        (True, ("integer",), False),
        (None, ("null", "string"), True),
        ([], ("array",), True),
        ({}, ("array",), False),
        ("x", (), True),
    ],
)
def test_values_against_those_words(value: Any, kinds: tuple[str, ...], right: bool) -> None:
    assert fits(value, kinds) is right


def test_a_task_is_found_by_its_former_names_and_they_are_offered() -> None:
    catalogue = Catalogue()
    renamed = TaskDef(plain, info, "new", Code(), ("old", "older"))
    catalogue.add(renamed)
    assert catalogue.get("old") is catalogue.get("older") is catalogue.get("new") is renamed
    assert [one.name for one in catalogue.infos()] == ["new", "old", "older"]
    assert (len(catalogue), list(catalogue)) == (1, [renamed])
    for name, aliases in (("old", ()), ("other", ("new",)), ("other", ("older",))):
        with pytest.raises(
            InvalidInput, match=r"no other task .*; tests\.tasks\.test_catalogue\.plain \(test_catalogue.py, line"
        ):
            catalogue.add(TaskDef(plain, info, name, Code(), aliases))
    assert list(catalogue) == [renamed]
