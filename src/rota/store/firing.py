"""Decides what becomes of new fires while earlier ones of their schedule may still live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from rota.model.trigger.overlap import Step, step
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Fate, FireKind, NewFire, NewSchedule
from rota.model.trigger.skipped import Skipped, SkipReason

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
    """The data of the event about a saved schedule, beside the user who saved it."""
    declared = {"app": new.app, "module": new.module} if new.app is not None else {}
    return {"how": "added" if revision is None else "changed", **declared}
