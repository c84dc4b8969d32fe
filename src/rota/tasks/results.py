"""Arguments that are results of other jobs.

A job among the arguments of an order stands for its result. The order keeps null in its place, and the edge to that
parent keeps the path of the place. The result is filled in where the function runs, before the arguments are checked
against the signature. Paths are kept apart from arguments, so no value of a user can be mistaken for one.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rota.errors import InvalidInput, NotSerialisable
from rota.model.graph import ParentInfo, Path
from rota.model.lifecycle import TERMINAL, State
from rota.tasks.encoding import JobReference

Fills = Mapping[str, tuple[Path, ...]]  # places of results, by the ids of the jobs


class ResultNotReady(Exception):
    """A parent runs again, so its result will be another one."""


def split(arguments: Mapping[str, Any], what: str) -> tuple[dict[str, Any], Fills]:
    """The arguments with None in the place of each job, and these places."""
    found: dict[str, list[Path]] = {}

    def plain(value: Any, path: Path) -> Any:
        if isinstance(value, JobReference):
            found.setdefault(value.id, []).append(path)
            return None
        if isinstance(value, Mapping):
            # Numbers as keys are texts in JSON.
            return {key: plain(part, (*path, str(key) if type(key) is int else key)) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [plain(part, (*path, place)) for place, part in enumerate(value)]
        return value

    try:
        rest = {name: plain(value, (name,)) for name, value in arguments.items()}
    except RecursionError as error:
        raise NotSerialisable(what, str(error), "values that JSON can carry") from None
    for path in (path for paths in found.values() for path in paths):
        parts: Sequence[Any] = path
        if not all(isinstance(part, str | int) and "\0" not in str(part) for part in parts):
            raise NotSerialisable(what, shown(path), "texts without NUL as the keys of mappings with jobs")
    return rest, {job: tuple(paths) for job, paths in found.items()}


def argument_names(fills: Fills) -> set[str]:
    """The arguments that hold places of results."""
    return {str(path[0]) for paths in fills.values() for path in paths}


def beside(hint: Any, value: Any, places: Sequence[Path], path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """The values of an argument that hold no job, each with its path and hint. `places`: those of jobs, in `value`.
    Only lists and mappings are looked into: other types are checked as a whole, when the results are there."""
    if () in places:
        return
    if not places:
        yield path, hint, value
        return
    inner = _inner(hint)
    if inner is Any:
        return
    for key, part in enumerate(value) if isinstance(value, list) else value.items():
        below = [place[1:] for place in places if place[0] == key]
        yield from beside(inner, part, below, (*path, key))


def _inner(hint: Any) -> Any:
    """The hint for the parts of a list or mapping; Any: there is no single one."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        choices = [one for one in typing.get_args(hint) if one is not type(None)]
        return _inner(choices[0]) if len(choices) == 1 else Any
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if not isinstance(origin, type) or not issubclass(origin, Sequence | Mapping):
        return Any
    if issubclass(origin, tuple):
        return parts[0] if parts[1:] == (...,) else Any
    return parts[-1]


def filled(arguments: str, parents: Sequence[ParentInfo]) -> str | bytes:
    """The arguments with the results of the parents in their places. Raises InvalidInput if a result is gone, and
    ResultNotReady."""
    if not any(parent.fills for parent in parents):
        return arguments
    whole = msgspec.json.decode(arguments)
    for parent in parents:
        for path in parent.fills:
            _check(parent, path)
            _put(whole, path, parent.result)
    return msgspec.json.encode(whole)


def _check(parent: ParentInfo, path: Path) -> None:
    if parent.state is State.SUCCEEDED:
        return
    if parent.state is not None and parent.state not in TERMINAL:
        raise ResultNotReady(f"{shown(path)} is the result of job {parent.id}, which runs again")
    how = "is gone" if parent.state is None else f"{parent.state} when it ran again"
    raise InvalidInput("argument", shown(path), f"the result of job {parent.id}; that {how}")


def _put(whole: Any, path: Path, value: object) -> None:
    *above, last = path
    try:
        for part in above:
            whole = whole[part]
        whole[last] = value
    except (KeyError, IndexError, TypeError):
        raise InvalidInput("arguments", shown(path), "a place for a result; the stored arguments have none") from None


def shown(path: Path) -> str:
    """Such as `rows`, `parts[0]` or `config.rows`."""
    first, *rest = path
    return str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)
