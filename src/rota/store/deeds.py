"""How writes are audited: which rows the audit gets, and what is in them.

A row says when who did what to which subjects. It is written in the transaction of the deed, by `verbs.audited`, so
there is one for every accepted change and none for a change that was refused or changed nothing. Writes of rota's own
services have no rows. Arguments and specifications of jobs are not kept in it: they may hold secrets, and live shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from rota.model.feedback import Feedback
from rota.model.limits import Rate, rate_text
from rota.model.principal import Principal
from rota.model.quotas import Quotas
from rota.model.rank import STRICT
from rota.model.times import iso, short

MOST_SUBJECTS = 20  # that a row names; it counts all
LONGEST_TEXT = 200

Given = Mapping[str, Any]  # the arguments of the call by name
Subjects = Callable[[Given, Any], Sequence[str]]  # of the arguments and the answer; empty: nothing was changed


class AuditRow(NamedTuple):
    actor: str
    key: str
    deed: str
    subjects: str  # a JSON list
    total: int
    data: str  # a JSON object


@dataclass(frozen=True)
class Deed:
    """`data`: parameters whose values are kept, or attributes of them (`limit.rate`). `by_key`: only calls by an access
    key are audited; others leave a record that lasts as long, such as the job that was ordered. Times, durations and
    rates are kept as people write them: a row is read long after, and by people."""

    subjects: Subjects
    data: tuple[str, ...] = ()
    by_key: bool = False
    parameters: tuple[str, ...] = ()

    def of(self, parameters: Sequence[str]) -> Deed:
        for one in self.data:
            assert one.partition(".")[0] in parameters, one
        return replace(self, parameters=tuple(parameters))

    def concerns(self, who: Principal) -> bool:
        return not who.system and (not self.by_key or who.key != "")

    def row(self, who: Principal, verb: str, given: Given, answer: Any) -> AuditRow | None:
        subjects = self.subjects(given, answer)
        if not subjects:
            return None
        named = [subject[:LONGEST_TEXT] for subject in subjects[:MOST_SUBJECTS]]
        kept = {path.rpartition(".")[2]: _shown(path, _at(given, path)) for path in self.data}
        data = {name: value for name, value in kept.items() if not _says_nothing(value)}
        return AuditRow(who.user, who.key, verb, _json(named), len(subjects), _json(data))


def each(parameter: str, *data: str, done: Callable[[Any], object] = bool) -> Deed:
    """The subjects are the values of a list whose answers say that they were changed."""

    def changed(given: Given, answer: Any) -> Sequence[str]:
        return [one for one, said in zip(given[parameter], answer, strict=True) if done(said)]

    return Deed(changed, data)


def about(path: str, *data: str, done: Callable[[Any], object] = bool) -> Deed:
    """The subject is an argument, or an attribute of one, if the answer says that it was changed."""
    return Deed(lambda given, answer: [str(_at(given, path))] if done(answer) else [], data)


def always(_: Any) -> bool:
    """For verbs whose answer says nothing: they change something or raise."""
    return True


def _at(given: Given, path: str) -> Any:
    name, _, attribute = path.partition(".")
    value = given.get(name)
    return attrgetter(attribute)(value) if attribute and value is not None else value


_INSTANTS = frozenset({"new.until", "new.expires_at", "expires_at"})
_DURATIONS = frozenset({"overlap", "step"})


def _shown(path: str, value: Any) -> Any:
    plain = msgspec.to_builtins(_said(path, value))
    if isinstance(plain, str):
        return plain[:LONGEST_TEXT]
    return plain if len(_json(plain)) <= LONGEST_TEXT else _json(plain)[:LONGEST_TEXT]


def _said(path: str, value: Any) -> Any:
    match value:
        case int() if path in _INSTANTS:
            return iso(value)
        case int() if path in _DURATIONS:
            return "strict" if value == STRICT else short(value)
        case Rate():
            return rate_text(value)
        case Quotas():
            return value.texts()
        case Feedback():
            return {"quantum": short(value.quantum), "levels": value.levels, "boost": short(value.boost)}
    return value


def _says_nothing(value: Any) -> bool:
    """Not so of 0: a priority, for one."""
    return value is None or value is False or (not isinstance(value, int) and not value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
