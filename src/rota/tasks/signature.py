"""The signature of a function: what a job gives it, and where its context goes."""

from __future__ import annotations

import inspect
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rota.errors import InvalidInput
from rota.tasks.annotations import Hints, hints_of
from rota.tasks.context import Context

LAMBDA = "<lambda>"
# Annotations of a context whose import is for type checkers only.
_CONTEXT_TEXTS = ("Context", "rota.Context", "Context | None", "rota.Context | None")


class Signature(NamedTuple):
    context: str | None  # the parameter that gets the context
    named: list[inspect.Parameter]  # those that a job gives
    rest: inspect.Parameter | None  # `**rest`
    hints: Hints


def read_signature(function: Callable[..., Any], task: str) -> Signature:
    """Raises InvalidInput if no job could call the function."""
    if task == LAMBDA:
        raise InvalidInput("task", task, "a name: a lambda has none, so give it name=")
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in faces(function)):
        raise InvalidInput("task", task, "a function that returns its result; this one yields")
    hints, parameters = hints_of(function), list(inspect.signature(function).parameters.values())
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise InvalidInput(f"task {task!r}", str(parameter), "parameters that can be given by name")
    if parameters and _is_receiver(parameters[0]):
        expected = "a function without it, or a bound method: jobs have no object to call the method of"
        raise InvalidInput(f"task {task!r}, first parameter", parameters[0].name, expected)
    contexts = [one.name for one in parameters if _is_context(one, hints, task)]
    if len(contexts) > 1:
        raise InvalidInput(f"task {task!r}", contexts, "one parameter for the context")
    context = contexts[0] if contexts else None
    rest = next((one for one in parameters if one.kind is one.VAR_KEYWORD), None)
    named = [one for one in parameters if one.name != context and one is not rest]
    _warn(function, task, {name: text for name, text in hints.unresolved.items() if name != context})
    return Signature(context, named, rest, hints)


def _warn(function: Callable[..., Any], task: str, unresolved: Mapping[str, str]) -> None:
    """A warning that shows the function: its values would lose their type without a word. Not refused: a decorator or
    a type checker may need the name, and plain data may do."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    file, line = ("<unknown>", 0) if code is None else (code.co_filename, code.co_firstlineno)
    for name, text in unresolved.items():
        whose = "its result" if name == "return" else name
        problem = f"task {task!r}: the annotation {text!r} of {whose} is unknown at run time; values are plain data"
        warnings.warn_explicit(f"{problem} (import the name outside of TYPE_CHECKING)", UserWarning, file, line)


def faces(function: Callable[..., Any]) -> tuple[Any, ...]:
    """What is called, and if that is an object, what it does when it is called."""
    return function, type(function).__call__


def _is_receiver(first: inspect.Parameter) -> bool:
    return first.name == "self" or (first.name == "cls" and first.annotation is first.empty)


def _is_context(parameter: inspect.Parameter, hints: Hints, task: str) -> bool:
    if parameter.kind is parameter.VAR_KEYWORD:
        return False
    name, hint = parameter.name, hints.found.get(parameter.name, Any)
    if _names_context(hint) or hints.unresolved.get(name) in _CONTEXT_TEXTS:
        return True
    if name == "ctx" and hint not in (Any, object):
        raise InvalidInput(f"task {task!r}, annotation of ctx", hint, "rota.Context, or another name for the parameter")
    return name == "ctx"


def _names_context(hint: Any) -> bool:
    """Such as `Context`, `Context | None`, `Annotated[Context, ...]`."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType, typing.Annotated):
        return any(map(_names_context, typing.get_args(hint)))
    return hint is Context
