"""The parts of a job that admission reads: labels for gates, keys for limits, the wish to be alone, its flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from rota.model.feedback import flow
from rota.model.gates import Match, Subject, labels
from rota.model.limits import Key, Policy, key_text, keys
from rota.model.times import Duration, short


class Alone(msgspec.Struct, frozen=True):
    """It runs while nothing else of its user's that fits the match runs. Before that, nothing of that is started any
    more; if some of it has not ended within `drain`, the job yields and tries again later, or has it cancelled."""

    match: Match
    like: str | None  # the match's task, for LIKE
    drain: Duration
    cancel: bool = False

    def as_json(self) -> dict[str, str]:
        drained = "cancel" if self.cancel else "yield"
        return {"scope": self.match.scope(), "drain": short(self.drain), "drained": drained}

    def text(self) -> str:
        then = "has them cancelled" if self.cancel else "tries again later"
        return f"with nothing else of {self.match.text()}; {then} if that takes more than {short(self.drain)}"


class Requirements(msgspec.Struct, frozen=True, omit_defaults=True):
    labels: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    alone: Alone | None = None
    flow: str | None = None  # None: that of its task

    def check(self) -> None:
        """Raises InvalidInput for values that no order could have: they may have been written by hand."""
        labels(self.labels)
        keys(self.keys)
        if self.flow is not None:
            flow(self.flow)

    def as_json(self) -> dict[str, Any]:
        alone = self.alone.as_json() if self.alone else None
        return {"labels": list(self.labels), "keys": [key.name for key in self.keys], "alone": alone, "flow": self.flow}

    def facts(self) -> Iterator[tuple[str, str]]:
        """For people: a name and a text each, which may be empty."""
        yield "labels", ", ".join(self.labels)
        yield "limits", ", ".join(map(key_text, self.keys))
        yield "alone", self.alone.text() if self.alone else ""
        yield "flow", self.flow or ""

    def __bool__(self) -> bool:
        return bool(self.labels or self.keys or self.alone or self.flow)

    @property
    def special(self) -> bool:
        """A claim can't simply take it."""
        return bool(self.keys or self.alone)

    @property
    def text(self) -> str | None:
        """As it is kept; None for the many jobs that have none."""
        return msgspec.json.encode(self).decode() if self else None

    @property
    def patient(self) -> bool:
        """It waits for its keys, whatever happens to them: it may stand in line for the first from the beginning."""
        return bool(self.keys) and self.alone is None and all(key.policy is Policy.WAIT for key in self.keys)


NO_REQUIREMENTS = Requirements()


def read_requirements(text: str | None) -> Requirements:
    """Anyone with access to the tables may have written them: what doesn't decode counts as none."""
    with suppress(msgspec.MsgspecError, RecursionError):
        return msgspec.json.decode(text, type=Requirements) if text else NO_REQUIREMENTS
    return NO_REQUIREMENTS


def subject(owner: str, task: str, queue: str, requirements: str | None) -> Subject:
    return Subject(owner, task, queue, read_requirements(requirements).labels)
