"""Values by their annotations: what goes into JSON comes back as the annotation says, as argument and as result."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

import rota
from rota import testing
from rota.errors import InvalidInput, NotSerialisable, ResultMismatch
from rota.tasks.annotations import hints_of, json_types, readable
from rota.tasks.encoding import to_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator as Missing

PLENTY = 10_000
NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Line:
    article: str
    price: Decimal
    tags: set[str] = field(default_factory=set)


class Order(msgspec.Struct):
    id: UUID
    lines: list[Line]
    at: datetime | None = None


class Pair(NamedTuple):
    left: int
    right: str


class Typed(TypedDict):
    a: int


class User(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")
    name: str
    born: date | None = None
    mail: str = pydantic.Field(default="", alias="e-mail")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def initial(self) -> str:
        return self.name[:1]


class Robot(pydantic.BaseModel):
    serial: int


ADA = User.model_validate({"name": "Ada", "born": date(1815, 12, 10), "e-mail": "ada@example.com"})
ORDER = Order(UUID(int=7), [Line("nail", Decimal("1.50"), {"a"})], NOON)
VALUES: list[tuple[Any, Any]] = [
    (int, 7), (float, 2.5), (bytes, b"\0\xff"), (None, None), (datetime, NOON), (date, NOON.date()),
    (timedelta, timedelta(days=1, seconds=2)), (UUID, UUID(int=7)), (Decimal, Decimal("1.50")), (Colour, Colour.RED),
    (Level, Level.HIGH), (Literal["a", "b"], "b"), (tuple[int, str], (1, "a")), (set[int], {1, 2}),
    (Pair, Pair(1, "a")), (Typed, Typed(a=1)), (dict[int, Colour], {1: Colour.RED}), (Line, Line("nail", Decimal(1))),
    (Order, ORDER), (list[Order], [ORDER]), (Order | None, None), (Order | None, ORDER),
    (Annotated[int, msgspec.Meta(gt=0)], 1),
    (User, ADA), (list[User], [ADA]), (dict[str, list[User]], {"all": [ADA]}), (User | None, ADA), (User | None, None),
    (User | Robot, Robot(serial=7)), (list[User | int], [1, ADA]), (pydantic.HttpUrl, pydantic.HttpUrl("http://a/")),
    (Path, Path("a/b")), (list[PurePosixPath] | None, [PurePosixPath("/a")]), (pydantic.PositiveInt, 3),
    (Annotated[bytes, pydantic.Field(max_length=3)], b"\xff"),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "value"), VALUES, ids=lambda one: str(one)[:40])
async def test_a_value_comes_back_as_it_is_annotated(hint: Any, value: Any) -> None:
    app = rota.App()

    async def echo(it: Any, default: Any = None) -> Any:
        assert it == value
        assert type(it) is type(value)
        return default

    echo.__annotations__ = {"it": hint, "default": hint, "return": hint}
    task = app.task(echo)
    async with testing.harness(app) as stage:
        job = await task.submit(it=value, default=value)
        await stage.drain()
        result = await job.result()
        again = await (await app.job(job.id, task=task)).result()
        plain = await (await app.job(job.id)).result()
    assert result == again == value
    assert type(result) is type(value)
    assert plain == msgspec.json.decode(to_json(value, PLENTY, "value"))


@pytest.mark.parametrize(
    ("hint", "wrong", "problem"),
    [
        (User, {"name": 7}, r"Input should be a valid string \(name\)"),
        (list[User], [{"name": "a", "x": 1}], r"Extra inputs are not permitted \(x\)"),
        (User | Robot, {"serial": "x"}, r"Field required \(User.name\)"),
        (Order, {"id": "x", "lines": []}, "Invalid UUID"),
        (pydantic.PositiveInt, 0, "greater than 0"),
        (Annotated[int, pydantic.Field(gt=3)] | None, 3, "greater than 3"),
        (list[Annotated[str, pydantic.StringConstraints(max_length=2)]], ["abc"], "at most 2 characters"),
        (Path, 7, "must be Path, not 7|Expected `Path`"),
        (datetime, "soon", "Invalid RFC3339"),
        (Colour, "blue", "Invalid enum value 'blue'"),
    ],
)
async def test_an_argument_or_result_that_does_not_fit_is_told_in_one_line(hint: Any, wrong: Any, problem: str) -> None:
    app = rota.App()

    async def echo(it: Any) -> Any: ...

    async def give() -> Any:
        return wrong

    echo.__annotations__ = {"it": hint}
    give.__annotations__ = {"return": hint}
    task, returning = app.task(echo), app.task(give)
    async with testing.harness(app) as stage:
        with pytest.raises(InvalidInput, match=f"arguments of task 'echo': .*{problem}") as refused:
            await task.submit(it=wrong)
        job = await returning.submit()
        await stage.drain()
        with pytest.raises(ResultMismatch, match=f"result of task 'give', job {job.id}, .*{problem}") as told:
            await job.result()
        assert (await job.info()).result == wrong
    assert (told.value.task, told.value.job_id) == ("give", job.id)
    assert "\n" not in f"{refused.value}{told.value}"


async def test_what_a_model_holds_must_be_json_too() -> None:
    class Measure(pydantic.BaseModel):
        value: float

    for wrong in (Measure(value=float("nan")), [Line("a", Decimal(1)), Measure(value=float("inf"))]):
        with pytest.raises(NotSerialisable, match=r"value: .* is not valid; expected values that JSON can carry"):
            to_json(wrong, PLENTY, "value")


def awkward(ctx: rota.Context, a: Missing, b: int) -> Coroutine[Any, Any, list[int]]: ...  # type: ignore[empty-body,type-arg]


class Login(pydantic.BaseModel):
    password: pydantic.SecretStr


def test_a_secret_that_would_arrive_as_stars_is_refused() -> None:
    secret = pydantic.SecretStr("hush")
    for one in (secret, {"all": [secret]}, Login(password=secret)):
        with pytest.raises(NotSerialisable, match="secret, which pydantic writes as stars"):
            to_json(one, PLENTY, "value")


class Adder:
    def __call__(self, a: int) -> Line: ...  # type: ignore[empty-body]


def test_partial_functions_and_objects_have_the_annotations_of_what_they_call() -> None:
    for one in (Adder(), functools.partial(Adder(), 1), Adder().__call__):
        assert hints_of(one).found == {"a": int, "return": Line}


def test_a_name_that_is_there_for_type_checkers_only_costs_no_other() -> None:
    hints = hints_of(awkward)
    assert hints.found == {"ctx": rota.Context, "b": int, "return": Coroutine[Any, Any, list[int]]}
    assert hints.unresolved == {"a": "Missing"}
    assert hints_of(lambda: None) == ({}, {})
    with pytest.warns(UserWarning, match="the annotation 'Missing' of a is unknown at run time"):
        task = rota.App().task(awkward)
    assert task._handle("id")._returns is not None
    assert task._handle("id")._returns.read("id", [1]) == [1]
    with pytest.raises(ResultMismatch):
        task._handle("id")._returns.read("id", ["a"])


class Odd:
    pass


def test_types_that_nobody_can_read_are_passed_through() -> None:
    assert readable(Odd | int) is Any
    assert readable(Line | Order) is Any
    assert readable(User | Odd) is Any
    assert readable(int) is int


def test_models_in_the_words_of_json() -> None:
    assert json_types(User) == ("object",)
    assert json_types(User | None) == ("object", "null")
    assert json_types(list[User]) == ("array",)
    assert json_types(Odd) == ()


def test_pydantic_is_imported_by_none_but_the_user() -> None:
    code = """
import dataclasses, sys, rota, rota.testing
app = rota.App()
@dataclasses.dataclass
class Point:
    x: int
@app.task
def double(point: Point, other: dict | None = None) -> Point:
    return Point(2 * point.x)
assert rota.testing.run(app, double, point=Point(2)).result == {"x": 4}
assert "pydantic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
