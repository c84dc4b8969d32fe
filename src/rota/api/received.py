"""Checks of model values that a client sent: what the readers of options and clients would have made, or InvalidInput.

A client of rota's own checks its values before it sends them. Others may send anything that has the right types, so a
server checks again, by the same readers, before a value reaches the store. Each function returns the value as the
readers make it: sorted, without what can be derived from the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from rota.errors import InvalidInput, TooLarge
from rota.model import http, secrets
from rota.model.feedback import flow
from rota.model.gates import Match, labels, match
from rota.model.graph import Edge, edges
from rota.model.job import CommandSpec, FunctionSpec, Kind, Membership, NewJob, Spec, queue_name
from rota.model.limits import keys
from rota.model.options import READERS, task_name, workflow_name
from rota.model.rank import priority
from rota.model.readers import whole
from rota.model.requirements import NO_REQUIREMENTS, Alone, Requirements
from rota.model.times import LATEST, LONGEST

MOST_SPECS = 4_096  # that are remembered as checked,
SMALL_SPEC = 1_000  # if they are no longer than this, in characters
DEEPEST = 64  # levels of JSON
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_function = msgspec.json.Decoder(FunctionSpec)
_objects = msgspec.json.Decoder(dict[str, Any])


def job(given: NewJob, largest: int) -> NewJob:
    """`largest`: bytes of arguments, of a command or of a call."""
    identity(given.id)
    spec = work(given.spec, largest)
    if spec.kind is Kind.FUNCTION and given.task != function_name(spec):
        raise InvalidInput("task", given.task, f"the function of its spec, {function_name(spec)!r}")
    task_name(given.task, "task")
    queue_name(given.queue)
    priority(given.priority)
    json_object(given.args, "arguments", largest)
    for what, least, most in (
        ("at", 0, LATEST),
        ("delay", 0, LONGEST),
        ("expires", 1, LONGEST),
        ("timeout", 1, LONGEST),
    ):
        span(getattr(given, what), what, least, most)
    changed: dict[str, Any] = {}
    if spec is not given.spec and spec != given.spec:
        changed["spec"] = spec
    if given.key is not None:
        READERS["key"](given.key)
    if given.after:
        changed["after"] = parents(given.after)
    if given.workflow is not None:
        membership(given.workflow)
    if given.job_name:
        task_name(given.job_name, "name")
    if given.requirements is not NO_REQUIREMENTS:
        changed["requirements"] = requirements(given.requirements)
    if given.meta is not None:
        json_object(given.meta, "metadata", largest)
    return msgspec.structs.replace(given, **changed) if changed else given


def identity(given: str, what: str = "id") -> str:
    if not _ID.fullmatch(given):
        raise InvalidInput(what, given, "a UUID of version 7 in lower case, as rota makes them")
    return given


def span(given: int | None, what: str, least: int, most: int) -> None:
    """An instant or a duration, in microseconds."""
    if given is not None and not least <= given <= most:
        raise InvalidInput(what, given, f"from {least} to {most} microseconds")


def json_object(text: str, what: str, largest: int) -> None:
    if (size := len(text)) * 4 > largest and (size := len(text.encode())) > largest:
        raise TooLarge(what, size, largest)
    try:
        _objects.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as problem:
        raise InvalidInput(what, f"{size} bytes", f"a JSON object ({problem})") from None


# -- the work --------------------------------------------------------------------------------------------------------
def work(given: Spec, largest: int) -> Spec:
    """The spec made anew, so that body and digest fit."""
    if (size := len(given.body.encode())) > largest:
        raise TooLarge(given.kind, size, largest)
    made = (_small if size <= SMALL_SPEC else _made)(given.kind, given.body)
    return made.with_secrets(secrets.names(given.secrets)) if given.secrets else made


def _made(kind: Kind, body: str) -> Spec:
    try:
        match kind:
            case Kind.FUNCTION:
                return Spec.function(task_name(msgspec.json.decode(body, type=FunctionSpec).name, "task"))
            case Kind.COMMAND:
                return Spec.command(**msgspec.structs.asdict(msgspec.json.decode(body, type=CommandSpec)))
            case Kind.HTTP:
                return _call(msgspec.json.decode(body, type=http.HttpSpec))
    except (msgspec.MsgspecError, RecursionError) as problem:  # the text may hold secrets
        raise InvalidInput("spec", http.HIDDEN, f"the specification of a {kind} as JSON ({problem})") from None


_small = lru_cache(maxsize=MOST_SPECS)(_made)


def _call(spec: http.HttpSpec) -> Spec:
    http.check(spec)
    body = spec.content() if spec.binary else spec.body
    return Spec.http(spec.method, spec.url, spec.headers, body, spec.expect or None, spec.redirects)


def function_name(spec: Spec) -> str:
    return _function.decode(spec.body).name


# -- parts of an order -----------------------------------------------------------------------------------------------
def parents(given: Iterable[Edge]) -> tuple[Edge, ...]:
    for edge in given:
        identity(edge.parent, "after")
        for path in edge.fills:
            if not path or not isinstance(path[0], str) or len(path) > DEEPEST:
                raise InvalidInput("after", list(path), "places of results: an argument, then keys and positions")
            for step in path[1:]:
                if isinstance(step, int):
                    whole(step, "after", 0, (1 << 31) - 1)
    return edges(given)


def membership(given: Membership) -> Membership:
    identity(given.id, "workflow")
    workflow_name(given.name)
    return given


def requirements(given: Requirements) -> Requirements:
    if not given:
        return NO_REQUIREMENTS
    return Requirements(
        labels(given.labels), keys(given.keys), given.alone and alone(given.alone), given.flow and flow(given.flow)
    )


def alone(given: Alone) -> Alone:
    which = matching(given.match)
    span(given.drain, "drain", 0, LONGEST)
    return Alone(which, which.like, given.drain, given.cancel)


def matching(given: Match) -> Match:
    found = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
    return match(**found) if found else match(everything=True)


def identities(given: Sequence[str]) -> Sequence[str]:
    """Ids of jobs to find. Any text may be asked for: what is no id finds nothing."""
    for one in given:
        if len(one) > 255 or "\0" in one:
            raise InvalidInput("job", one, "the id of a job")
    return given
