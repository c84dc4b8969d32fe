"""Orders and their answers, as they travel to the function `accept` of the database and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.errors import KeyConflict
from rota.model.job import NewJob, Submitted
from rota.store.base import Topic

Answer = list[Submitted] | KeyConflict
encode = msgspec.json.encode


def wire(order: Sequence[NewJob]) -> str:
    """An order as the function `accept` of the database takes it."""
    return encode([
        {
            "id": job.id, "task": job.task, "kind": job.spec.kind.value, "spec": job.spec.body,
            "digest": job.spec.digest, "args": job.args, "queue": job.queue, "priority": job.priority,
            "at": job.at, "delay": job.delay,
            "retry": encode(job.retry).decode(), "timeout": job.timeout, "expires": job.expires, "key": job.key,
            "content": job.content(),
        }
        for job in order
    ]).decode()  # fmt: skip


def read_answer(text: str | dict[str, Any]) -> tuple[Answer, set[Topic]]:
    found: dict[str, Any] = msgspec.json.decode(text) if isinstance(text, str) else text
    if "key" in found:
        return KeyConflict(found["key"], found["job"]), set()
    return [Submitted(job, created) for job, created in found["jobs"]], {Topic(letter) for letter in found["rings"]}
