"""What tells the jobs of a workflow apart: their names, or their arguments where several have the same task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from rota.model.graph import Path
from rota.store.graph import WorkflowJob

LONGEST_VALUE = 30


def details(jobs: Sequence[WorkflowJob]) -> list[str]:
    """For each job its task with its name or, if others without a name have the same task, with its arguments; "": the
    task says enough."""
    unnamed = Counter(job.task for job in jobs if not job.name)
    return [_named(job) if job.name else _with_arguments(job) if unnamed[job.task] > 1 else "" for job in jobs]


def _named(job: WorkflowJob) -> str:
    return job.name if job.name == job.task else f"{job.name} ({job.task})"


def _with_arguments(job: WorkflowJob) -> str:
    try:
        arguments = msgspec.json.decode(job.args or "{}")
    except (msgspec.DecodeError, RecursionError):  # written by hand
        arguments = {}
    results = {path for edge in job.parents for path in edge.fills}
    words = [f"{name}={_short(value, (name,), results)}" for name, value in _items(arguments)]
    return " ".join([job.task, *words]) if words else ""


def _items(arguments: Any) -> list[tuple[str, Any]]:
    return list(arguments.items()) if isinstance(arguments, dict) else []


def _short(value: Any, path: Path, results: set[Path]) -> str:
    if any(one[: len(path)] == path for one in results):
        return "…"  # the result of a job, or it holds some
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
