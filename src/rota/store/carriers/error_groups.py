"""Groups of errors as they are read, and the groups of jobs that failed before there were any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rota.model.error_groups import ErrorGroup, group_of, set_aside, title_of_example
from rota.model.job import JobInfo
from rota.model.times import Instant, aware
from rota.store.rows import read_problem


class GroupRow(msgspec.Struct, frozen=True):
    id: str
    task: str
    count: int
    first_at: Instant
    last_at: Instant
    example: str


def shown(rows: Sequence[GroupRow], examples: Mapping[str, JobInfo]) -> list[ErrorGroup]:
    return [
        ErrorGroup(
            id=row.id, task=row.task, title=title_of_example(examples.get(row.example)), count=row.count,
            first_at=aware(row.first_at), last_at=aware(row.last_at), example=row.example,
        )
        for row in rows
    ]  # fmt: skip


def old_group(task: bytes | None, reason: bytes | None, error: bytes | None) -> str:
    """The group of a dead letter of an earlier version. Its texts come as bytes: they may have been written by hand."""
    named, why, known = (
        None if one is None else bytes(one).decode("utf-8", "replace") for one in (task, reason, error)
    )
    return group_of(named or "", set_aside(why) if known is None else read_problem(known))
