"""Gates: rules that pause or drop matching jobs at run time, and the labels that they may match.

`Match.fits` is the rule. PostgreSQL asks it in the function `fits` (with `LIKE`), for claims read thousands of rows;
a property test holds that function against this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from rota.errors import InvalidInput
from rota.model.globs import glob_fits
from rota.model.limits import plain_name, word
from rota.model.times import Instant

EVERYTHING = "all"
LONGEST_LABEL = 100
MOST_LABELS = 20
LONGEST_SCOPE = 2_000  # four names, each character of them with a backslash

_KINDS = ("task", "queue", "user", "label")
_EXPECTED_MATCH = f"at least one of {', '.join(_KINDS)}, or everything"
_EXPECTED_SCOPE = "parts such as queue:mail, task:report.*, user:eve or label:db joined by commas, or all"
_LIKE = str.maketrans({"*": "%", "?": "_", "%": r"\%", "_": r"\_", "\\": r"\\"})
_ESCAPED = str.maketrans({",": r"\,", "\\": r"\\"})


class Effect(StrEnum):
    PAUSE = "pause"
    DROP = "drop"


class Match(msgspec.Struct, frozen=True):
    """All given fields must fit; with none given, every job fits. Make it with `match` or `scope`, which check
    values."""

    task: str | None = None  # a glob with * and ?; brackets are literal
    queue: str | None = None
    user: str | None = None
    label: str | None = None

    def fits(self, *, task: str, queue: str, user: str, labels: Collection[str]) -> bool:
        return (
            self.queue in (None, queue)
            and self.user in (None, user)
            and (self.label is None or self.label in labels)
            and (self.task is None or glob_fits(self.task, task))
        )

    def text(self) -> str:
        """`task mail.* in queue default, label nightly, user eve`, or `everything`."""
        said = {kind: f"{kind} {value}" for kind, value in self._given()}
        where = " in ".join(said[kind] for kind in ("task", "queue") if kind in said)
        return ", ".join(part for part in (where, said.get("label"), said.get("user")) if part) or "everything"

    def scope(self) -> str:
        """The text that `scope` parses: `queue:mail,label:db`, or `all`."""
        return ",".join(f"{kind}:{value.translate(_ESCAPED)}" for kind, value in self._given()) or EVERYTHING

    @property
    def like(self) -> str | None:
        """The task as a pattern for PostgreSQL's LIKE, which escapes by backslash."""
        return None if self.task is None else self.task.translate(_LIKE)

    def _given(self) -> list[tuple[str, str]]:
        return [(kind, getattr(self, kind)) for kind in _KINDS if getattr(self, kind) is not None]


def match(**given: object) -> Match:
    """`match(queue="mail", label="db")` or `match(everything=True)`; None counts as not given."""
    everything = given.pop("everything", None)
    for kind in given:
        if kind not in _KINDS:
            raise InvalidInput("match", kind, _EXPECTED_MATCH)
    if everything is not None and not isinstance(everything, bool):
        raise InvalidInput("everything", everything, "true or false")
    texts = {kind: value for kind, value in given.items() if value is not None}
    if bool(texts) == bool(everything):
        raise InvalidInput("match", {**texts, "everything": True} if everything else None, _EXPECTED_MATCH)
    readers: dict[str, Callable[[object], str]] = {
        "task": lambda value: plain_name(value, "task"),
        "queue": lambda value: word(value, "queue"),
        "user": lambda value: plain_name(value, "user"),
        "label": label,
    }
    return Match(**{kind: readers[kind](value) for kind, value in texts.items()})


def scope(text: object, what: str = "scope") -> Match:
    r"""Reads `queue:mail,label:db` and `all`. A comma inside a name is written `\,` and a backslash `\\`."""
    if not isinstance(text, str) or len(text) > LONGEST_SCOPE:
        raise InvalidInput(what, text, _EXPECTED_SCOPE)
    if text.strip() == EVERYTHING:
        return match(everything=True)
    texts: dict[str, str] = {}
    for part in _split(text):
        kind, colon, value = part.partition(":")
        kind = kind.strip()
        if kind not in _KINDS or not colon or kind in texts:
            raise InvalidInput(what, text, f"{_EXPECTED_SCOPE}; each kind once")
        texts[kind] = re.sub(r"\\([\\,])", r"\1", value)
    return match(**texts)


def _split(text: str) -> list[str]:
    parts = [""]
    for piece in re.findall(r"\\[\\,]|[^\\,]+|[\\,]", text):
        if piece == ",":
            parts.append("")
        else:
            parts[-1] += piece
    return parts


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    match: Match
    effect: Effect
    reason: str
    author: str
    created_at: datetime
    until: datetime | None = None
    job: str | None = None  # the job that runs alone and closed it for itself
    held: int = 0
    dropped: int = 0


class Subject(NamedTuple):
    """A job as gates see it."""

    owner: str
    task: str
    queue: str
    labels: Collection[str] = ()


class ClosedGate(msgspec.Struct, frozen=True):
    """A closed gate, to be tested against jobs. `owner`: the user whose jobs it holds; None: everyone's. `job`: the
    job that runs alone and closed the gate for itself. `proved`: claims that began before the gate was closed have
    ended."""

    id: str
    owner: str | None
    match: Match
    effect: Effect
    reason: str
    until: Instant | None = None
    job: str | None = None
    proved: bool = True

    def fits(self, job: Subject) -> bool:
        return self.owner in (None, job.owner) and self.match.fits(
            task=job.task, queue=job.queue, user=job.owner, labels=job.labels
        )


def fitting(gates: Iterable[ClosedGate], job: Subject, job_id: str | None) -> ClosedGate | None:
    """The first gate that fits, except the job's own gate. `gates`: oldest first."""
    others = (gate for gate in gates if gate.job is None or gate.job != job_id)
    return next((gate for gate in others if gate.fits(job)), None)


def label(given: object) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= LONGEST_LABEL or not all(map(_in_label, given)):
        raise InvalidInput("label", given, f"letters, digits and -_.:/=@, 1 to {LONGEST_LABEL} of them")
    return given


def _in_label(character: str) -> bool:
    return character.isalnum() or character in "-_.:/=@"


def labels(given: object) -> tuple[str, ...]:
    """One label or several; sorted, each once."""
    if not isinstance(given, str | list | tuple | set | frozenset):
        raise InvalidInput("labels", given, "a label or a list of labels")
    found = sorted({label(one) for one in ([given] if isinstance(given, str) else given)})
    if len(found) > MOST_LABELS:
        raise InvalidInput("labels", given, f"at most {MOST_LABELS} labels")
    return tuple(found)
