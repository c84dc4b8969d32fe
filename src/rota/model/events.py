"""Events as people watch them: entries of the outbox, each about one job, schedule, node, ..., and filters on them.

One entry of the outbox may tell of many jobs of a task at once (`jobs` in its data): a drain would be slower with an
entry for each job. Readers see an event for each. An event is named by the position of its entry and its place in it:
`57`, `58.0`, `58.1`. Names order events. A reader that was interrupted goes on behind the last one that it has seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from rota.errors import InvalidInput
from rota.model.globs import glob_fits
from rota.model.times import Instant, aware

MOST_KINDS = 20
# Told only while somebody listens for them (`store.carriers.watches`), and the event that says since when.
WATCHED = ("job.ordered", "job.started")
BEGAN = "watch.began"
_NAME = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?", re.ASCII)
_KIND = re.compile(r"[a-z_.*?]{1,50}", re.ASCII)


class EventPlace(NamedTuple):
    """The name of an event: the position of its entry, and its place among the jobs of the entry (-1: it is alone)."""

    seq: int
    place: int = -1

    @property
    def name(self) -> str:
        return str(self.seq) if self.place < 0 else f"{self.seq}.{self.place}"


def read_place(text: str, what: str = "after") -> EventPlace:
    found = _NAME.fullmatch(text)
    if found is None:
        raise InvalidInput(what, text, "the id of an event, such as 57 or 58.1; 0 is before the first")
    # All jobs of an entry come before its plain position, so that `58` is behind `58.1`.
    return EventPlace(int(found[1]), -1 if found[2] is None else int(found[2]))


class EventInfo(msgspec.Struct, frozen=True):
    id: str
    at: datetime
    kind: str  # job.failed, schedule.fired, node.died, ...
    subject: str  # the id of a job, gate or node, or the name of a schedule, calendar or queue
    user: str  # whose job or schedule it is; rota: it concerns everyone
    data: dict[str, Any]

    @property
    def of_job(self) -> bool:
        return self.kind.startswith("job.")


def expand(seq: int, at: Instant, kind: str, owner: str, subject: str, data: Mapping[str, Any]) -> Iterator[EventInfo]:
    """The events of one entry of the outbox."""
    jobs = data.get("jobs") if kind.startswith("job.") else None
    if not isinstance(jobs, list):
        yield EventInfo(str(seq), aware(at), kind, subject, owner, dict(data))
        return
    moment, rest = aware(at), {name: value for name, value in data.items() if name != "jobs"}
    for place, job in enumerate(jobs):
        yield EventInfo(f"{seq}.{place}", moment, kind, str(job), owner, rest)


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events; all given conditions must hold. `kinds` are globs, of which one must fit. Conditions on jobs leave
    out events of other things, except that `schedule` and `queue` also keep events of that schedule or queue."""

    kinds: tuple[str, ...] = ()
    job: str | None = None
    task: str | None = None  # a glob
    queue: str | None = None
    schedule: str | None = None
    workflow: str | None = None  # its id

    def __post_init__(self) -> None:
        if len(self.kinds) > MOST_KINDS:
            raise InvalidInput("kind", f"{len(self.kinds)} of them", f"at most {MOST_KINDS}")
        for kind in self.kinds:
            if not _KIND.fullmatch(kind):
                raise InvalidInput("kind", kind, "a kind of events, such as job.failed, or a glob, such as job.*")

    @property
    def watches(self) -> bool:
        """Orders and starts of jobs are wanted, which are told only if somebody asks for them."""
        return not self.kinds or any(glob_fits(kind, told) for kind in self.kinds for told in WATCHED)

    @property
    def by_membership(self) -> bool:
        """Jobs must be looked up: events don't tell their workflow and schedule."""
        return self.schedule is not None or self.workflow is not None

    def fits(self, event: EventInfo) -> bool:
        """Whether the event fits, or would if its job is of the right schedule and workflow."""
        if event.kind == BEGAN:  # whatever else is wanted: some of it may be missing before
            return self.watches
        if self.kinds and not any(glob_fits(kind, event.kind) for kind in self.kinds):
            return False
        if not event.of_job:
            return self._fits_other(event)
        if self.job is not None and event.subject != self.job:
            return False
        if self.queue is not None and event.data.get("queue") != self.queue:
            return False
        return self.task is None or glob_fits(self.task, str(event.data.get("task", "")))

    def _fits_other(self, event: EventInfo) -> bool:
        if self.job is not None or self.task is not None or self.workflow is not None:
            return False
        noun = event.kind.partition(".")[0]
        named = {"schedule": self.schedule, "queue": self.queue}
        wanted = [value for value in named.values() if value is not None]
        return not wanted or (len(wanted) == 1 and named.get(noun) == event.subject)
