"""The parts of a job that admission reads: labels for gates, keys for limits, the wish to be alone, its flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from rota.model.feedback import flow
from rota.model.gates import Match, Subject, labels
from rota.model.limits import RUNNING_QUOTA, Key, Policy, key_text, keys
from rota.model.times import Duration, short


class Alone(msgspec.Struct, frozen=True):
    """The job runs only while no other job of its user that fits the match runs. While it waits, no such job is
    started; if some have not ended within `drain`, the job yields and tries again later, or has them cancelled."""

    match: Match
    like: str | None  # the match's task, for LIKE
    drain: Duration
    cancel: bool = False

    def text(self) -> str:
        then = "has them cancelled" if self.cancel else "tries again later"
        return f"with nothing else of {self.match.text()}; {then} if that takes more than {short(self.drain)}"


class Requirements(msgspec.Struct, frozen=True, omit_defaults=True):
    labels: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    alone: Alone | None = None
    flow: str | None = None  # None: the flow of its task

    def check(self) -> None:
        """Raises InvalidInput for values that no order could have: they may have been written by hand."""
        labels(self.labels)
        keys(self.keys)
        if self.flow is not None:
            flow(self.flow)

    def facts(self) -> Iterator[tuple[str, str]]:
        """Pairs of a name and a text for people; the text may be empty."""
        yield "labels", ", ".join(self.labels)
        yield "limits", ", ".join(map(key_text, self.keys))
        yield "alone", self.alone.text() if self.alone else ""
        yield "flow", self.flow or ""

    def __bool__(self) -> bool:
        return bool(self.labels or self.keys or self.alone or self.flow)

    @property
    def special(self) -> bool:
        """It needs admission by keys or `alone`."""
        return bool(self.keys or self.alone)

    def within_quota(self) -> Requirements:
        """As claims read them for a user with a quota for running jobs. A key of that name may have been written by
        hand; it is the same one."""
        own = tuple(key for key in self.keys if key.name != RUNNING_QUOTA)
        return msgspec.structs.replace(self, keys=(*own, Key(RUNNING_QUOTA)))

    @property
    def text(self) -> str | None:
        """The stored JSON; None for the many jobs without requirements."""
        return msgspec.json.encode(self).decode() if self else None

    @property
    def patient(self) -> bool:
        """It always waits for its keys, so it may join the line of the first key when it is inserted."""
        return bool(self.keys) and self.alone is None and all(key.policy is Policy.WAIT for key in self.keys)


NO_REQUIREMENTS = Requirements()
_decode = msgspec.json.Decoder(Requirements).decode


def read_requirements(text: str | None) -> Requirements:
    """Requirements that don't decode count as none: they may have been written by hand."""
    with suppress(msgspec.MsgspecError, RecursionError):
        return _decode(text) if text else NO_REQUIREMENTS
    return NO_REQUIREMENTS


def subject(owner: str, task: str, queue: str, requirements: str | None) -> Subject:
    return Subject(owner, task, queue, read_requirements(requirements).labels)
