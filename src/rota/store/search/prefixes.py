"""What is known of jobs by their place in the index of ended jobs: owner, state, queue and task.

The index has few different prefixes, and each is a run of jobs in the order of their ids. A prefix decides a condition
with three values: no job of it fits (False), all do (True), or it depends on the job (None). So any combination of
these fields, globs and negations too, is a choice of runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rota.model.globs import glob_fits
from rota.model.lifecycle import LIVE, TERMINAL
from rota.model.query.tree import All, Any, Condition, How, Not, Term, Text
from rota.model.query.words import contains, text_fits
from rota.store.values import JobFilter

FIELDS = {"user": "owner", "state": "state", "queue": "queue", "task": "task"}
Known = Mapping[str, str]  # values by fields of queries
# Fields of JobFilter that a prefix says nothing about.
_OTHERS = (
    "ids", "error", "label", "workflow", "schedule", "created_after", "created_before", "ended_after", "ended_before",
)  # fmt: skip


class Prefix(NamedTuple):
    owner: str
    state: str
    queue: str
    task: str


def known(owner: str, state: str = "", queue: str = "", task: str = "") -> dict[str, str]:
    """What the first columns of a prefix say; empty: not known yet."""
    pairs = zip(("user", "state", "queue", "task"), (owner, state, queue, task), strict=True)
    return {name: value for name, value in pairs if value}


def fits(query: JobFilter, values: Known) -> bool | None:
    return _all([*_plain(query, values), True if query.where is None else decide(query.where, values)])


def living_fit(query: JobFilter) -> bool:
    """Whether some job that lives may fit."""
    return any(fits(query, {"state": state.value}) is not False for state in LIVE)


def ended_fit(query: JobFilter) -> bool:
    return any(fits(query, {"state": state.value}) is not False for state in TERMINAL)


def _plain(query: JobFilter, values: Known) -> Iterable[bool | None]:
    if query.states is not None:
        yield values["state"] in query.states if "state" in values else None
    if query.queue is not None:
        yield values["queue"] == query.queue if "queue" in values else None
    if query.tasks is not None:
        yield values["task"] in query.tasks if "task" in values else None
    if query.task is not None:  # sets such as [a-z] are left to the database
        yield glob_fits(query.task, values["task"]) if "task" in values and "[" not in query.task else None
    if query.group is not None:  # only failed jobs have one
        yield None if values.get("state", "failed") == "failed" else False
    yield from (None for name in _OTHERS if getattr(query, name) is not None)


def decide(condition: Condition, values: Known) -> bool | None:
    match condition:
        case All(of):
            return _all([decide(one, values) for one in of])
        case Any(of):
            return _not(_all([_not(decide(one, values)) for one in of]))
        case Not(of):
            return _not(decide(of, values))
        case Text():
            return True if "task" in values and text_fits(condition, values["task"]) else None
        case Term("group", _, str()):
            return None if values.get("state", "failed") == "failed" else False
        case Term(field, how, value):
            return _term(how, value, values[field]) if field in values else None


def _not(given: bool | None) -> bool | None:
    return None if given is None else not given


def _all(given: Iterable[bool | None]) -> bool | None:
    found = set(given)
    return False if False in found else None if None in found else True


def _term(how: How, wanted: object, value: str) -> bool | None:
    if not isinstance(wanted, str):
        return False if how is How.IS else None
    match how:
        case How.IS:
            return value == wanted
        case How.LIKE:
            return glob_fits(wanted, value)
        case How.HAS:
            return contains(value, wanted)
        case _:
            return None
