"""Which parameter gets the context, and which functions no job could call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest

import rota
import rota as r
from rota import Context as Ctx
from rota.errors import InvalidInput
from rota.tasks.signature import read_signature

if TYPE_CHECKING:
    from rota import Context


def by_alias(a: int, c: Ctx) -> None: ...


def by_module(c: r.Context, a: int) -> None: ...


def optional(a: int, c: Ctx | None = None) -> None: ...


def old_optional(a: int, c: Optional[Ctx] = None) -> None: ...  # noqa: UP045


def annotated(a: int, c: Annotated[Ctx, "mine"]) -> None: ...


def for_type_checkers(a: int, c: Context) -> None: ...


@pytest.mark.parametrize("function", [by_alias, by_module, optional, old_optional, annotated, for_type_checkers])
def test_a_context_is_known_by_its_annotation_whatever_its_name(function: Callable[..., Any]) -> None:
    found = read_signature(function, "t")
    assert (found.context, [one.name for one in found.named]) == ("c", ["a"])


def bare(ctx, a): ...  # type: ignore[no-untyped-def]


def untyped(ctx: Any, a: int, **rest: int) -> None: ...


def unknown(ctx: Missing, a: int) -> None: ...  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize("function", [bare, untyped, unknown])
def test_a_context_is_known_by_its_name(function: Callable[..., Any]) -> None:
    found = read_signature(function, "t")
    assert (found.context, [one.name for one in found.named]) == ("ctx", ["a"])
    assert (found.rest is not None) is (function is untyped)


def other(ctx: int) -> None: ...


def two(ctx: Ctx, c: Ctx) -> None: ...


class Shop:
    def sell(self, article: str) -> str:
        return article

    def make(cls) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (other, "annotation of ctx: <class 'int'> is not valid; expected rota.Context, or another name"),
        (two, r"\['ctx', 'c'\] is not valid; expected one parameter for the context"),
        (Shop.sell, "first parameter: 'self' is not valid; expected a function without it, or a bound method"),
        (Shop.make, "first parameter: 'cls'"),
    ],
)
def test_functions_that_no_job_could_call_are_refused(function: Callable[..., Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=f"task 't'.*{problem}"):
        rota.App().task(name="t")(function)


def test_a_bound_method_and_a_lambda_with_a_name_are_tasks() -> None:
    app = rota.App()
    assert app.task(name="sell")(Shop().sell)("nail") == "nail"
    assert app.task(name="nothing")(lambda: None)() is None
    with pytest.raises(InvalidInput, match="a lambda has none, so give it name="):
        app.task(lambda: None)
