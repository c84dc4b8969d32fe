"""What becomes of fires that are to be made while earlier ones of their schedule may still live, and how schedules
fare: the part that every backend shares."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from rota.model.times import SECOND, Duration, Instant, short
from rota.model.trigger.overlap import Step, step
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Fate, FireKind, NewFire, NewSchedule
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.store.values import Finding

# A schedule that has been due for longer has nobody who fires it.
LATE: Duration = 10 * SECOND
REPLACED = "replaced by a newer fire of its schedule"


class Decision(NamedTuple):
    fates: list[Fate]  # one per fire
    cancel: list[str]  # jobs that make way

    def made(self, fires: Sequence[NewFire]) -> list[NewFire]:
        return [fire for fire, fate in zip(fires, self.fates, strict=True) if fate is not Fate.SKIPPED]

    def waiting(self, fires: Sequence[NewFire]) -> list[NewFire]:
        return [fire for fire, fate in zip(fires, self.fates, strict=True) if fate is Fate.QUEUED]

    def skipped(self, fires: Sequence[NewFire]) -> list[Skipped]:
        chosen = [fire.fire for fire, fate in zip(fires, self.fates, strict=True) if fate is Fate.SKIPPED]
        return [Skipped(fire, fire, 1, SkipReason.OVERLAP) for fire in chosen]


def decide(overlap: Overlap, kind: FireKind, fires: Sequence[NewFire], alive: Sequence[tuple[str, str]]) -> Decision:
    """`alive`: jobs of earlier fires that have not ended, and what kind of fire they are.

    A backfill of a schedule whose fires must not overlap runs one after the other. Its fires were asked for one by
    one, so nothing replaces them: the newer fire waits.
    """
    policy = Overlap.QUEUE if kind is FireKind.BACKFILL and overlap is not Overlap.ALLOW else overlap
    fates: list[Fate] = []
    cancel: list[str] = []
    lives = bool(alive)
    for index in range(len(fires)):
        match step(policy, lives):
            case Step.MAKE if policy is Overlap.REPLACE and index < len(fires) - 1:
                fates.append(Fate.SKIPPED)  # the next would replace it at once
                continue
            case Step.MAKE:
                fates.append(Fate.MADE)
            case Step.SKIP:
                fates.append(Fate.SKIPPED)
            case Step.QUEUE:
                fates.append(Fate.QUEUED)
            case Step.REPLACE if index < len(fires) - 1:
                fates.append(Fate.SKIPPED)
                continue
            case Step.REPLACE:
                cancel = [job for job, of_kind in alive if of_kind != FireKind.BACKFILL]
                fates.append(Fate.QUEUED)  # until the old one is gone
        lives = True
    return Decision(fates, cancel)


NOTHING: Mapping[str, Any] = MappingProxyType({})


def saved(new: NewSchedule, revision: int | None) -> dict[str, Any]:
    """What the event about a kept schedule tells beside who kept it."""
    declared = {"app": new.app, "module": new.module} if new.app is not None else {}
    return {"how": "added" if revision is None else "changed", **declared}


def undeclared(names: Sequence[str]) -> Finding:
    """What `rota doctor` says of schedules that an app had in its code."""
    if not names:
        return Finding("declared schedules", True, "all are declared by their apps")
    named = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    found = f"not declared by the node of their app that started last: {named}"
    remove = f"`rota schedule remove {_listed(names)}`"
    cure = f"start one that imports their modules, or, if they are gone for good, {remove}"
    return Finding("declared schedules", False, f"{found}; {cure}")


def _listed(names: Sequence[str]) -> str:
    """For a command line. Of many only a placeholder: nobody removes what he has not looked at."""
    return shlex.join(names) if len(names) <= 3 else "NAME"


def examined(broken: Sequence[str], next_at: Instant | None, now: Instant) -> Finding:
    """What `rota doctor` says of schedules."""
    if broken:
        named = ", ".join(broken[:3]) + (", ..." if len(broken) > 3 else "")
        return Finding("schedules", False, f"set aside: {named}; `rota schedule show` tells why")
    if next_at is not None and next_at < now - LATE:
        text = f"nobody fires them: one has been due for {short((now - next_at) // SECOND * SECOND)}"
        return Finding("schedules", False, f"{text}; a node with the role control does it")
    return Finding("schedules", True, "none is set aside or late")
