"""Orders and their answers, as they travel to the function `accept` of the database and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.errors import KeyConflict, NotFound
from rota.model.job import NewJob, Submitted
from rota.store.columns import GIVEN, given_rows
from rota.store.postgres.encoding import is_id
from rota.store.values import Answer, Topic

encode = msgspec.json.encode
_GIVEN = tuple(column.name for column in GIVEN)


def wire(order: Sequence[NewJob]) -> str:
    """An order as the function `accept` of the database takes it."""
    places = {job.id: place for place, job in enumerate(order)}
    return encode(
        [
            dict(zip(_GIVEN, row, strict=True))
            | {"at": job.at, "delay": job.delay, "expires": job.expires, "content": job.content(places), **_ties(job)}
            for job, row in zip(order, given_rows(order), strict=True)
        ]
    ).decode()


def stray(order: Sequence[NewJob]) -> NotFound | None:
    """The refusal if a parent or workflow of the order has a malformed id."""
    for job in order:
        for edge in job.after:
            if not is_id(edge.parent):
                return NotFound("parent job", edge.parent)
        if job.workflow is not None and not is_id(job.workflow.id):
            return NotFound("workflow", job.workflow.id)
    return None


def _ties(job: NewJob) -> dict[str, Any]:
    ties: dict[str, Any] = {}
    if job.after:
        ties["after"] = job.after
    if job.workflow is not None:
        ties |= {"workflow": job.workflow, "name": job.job_name}
    if job.requirements.patient:
        ties["line"] = job.requirements.keys[0].name
    return ties


def read_answer(text: str | dict[str, Any]) -> tuple[Answer, set[Topic]]:
    found: dict[str, Any] = msgspec.json.decode(text) if isinstance(text, str) else text
    if "key" in found:
        return KeyConflict(found["key"], found["job"]), set()
    if "jobs" not in found:
        ((what, name),) = found.items()
        return NotFound("parent job" if what == "parent" else what, name), set()
    return [Submitted(job, created) for job, created in found["jobs"]], {Topic(letter) for letter in found["rings"]}
