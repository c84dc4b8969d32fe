"""The hot tier, as people and programs see it."""

from __future__ import annotations

import msgspec

from rota.hot.check import HeapCheck
from rota.model.times import iso
from rota.store.hints import ScheduledJob
from rota.views.moments import Moment


class MemberView(msgspec.Struct):
    """A server of the hot tier. `problem`: why it can't be used; the other fields are unknown then."""

    member: str
    filled: bool = False
    server: str | None = None
    due_jobs: int | None = None
    reports: int | None = None
    memory: int | None = None
    max_memory: int | None = None
    problem: str | None = None


class HeapEntryView(msgspec.Struct):
    job: str
    due_at: Moment


class HeapCheckView(msgspec.Struct):
    """`missing`: the first jobs that are not in the heap; `idle`: the first entries without a scheduled job."""

    due_jobs: int
    entries: int
    missing: int
    missing_jobs: list[HeapEntryView]
    idle: int
    idle_entries: list[HeapEntryView]

    @classmethod
    def of(cls, found: HeapCheck) -> HeapCheckView:
        return cls(
            found.scheduled,
            found.entries,
            found.missing_count,
            _entries(found.missing),
            found.idle_count,
            _entries(found.idle),
        )


def _entries(jobs: list[ScheduledJob]) -> list[HeapEntryView]:
    return [HeapEntryView(job.id, iso(job.at)) for job in jobs]
