"""rota: a distributed job scheduler. `App`, `@app.task`, `.submit()`; see README.md."""

from __future__ import annotations

import typing

__version__ = "0.1.0"

if typing.TYPE_CHECKING:
    from rota.app import App as App
    from rota.errors import Cancel as Cancel
    from rota.errors import Fatal as Fatal
    from rota.errors import RetryAfter as RetryAfter
    from rota.errors import RotaError as RotaError
    from rota.errors import Snooze as Snooze
    from rota.errors import Stale as Stale
    from rota.handles.job import Job as Job
    from rota.handles.schedule import Schedule as Schedule
    from rota.handles.shared_task import shared_task as shared_task
    from rota.handles.task import Task as Task
    from rota.handles.workflow import Workflow as Workflow
    from rota.model.retry import Retry as Retry
    from rota.tasks.context import Context as Context

# Loaded when first used: `rota --help` and programs that only submit must not wait for what they don't need.
_HOMES = {
    "App": "rota.app",
    "Cancel": "rota.errors",
    "Context": "rota.tasks.context",
    "Fatal": "rota.errors",
    "Job": "rota.handles.job",
    "Retry": "rota.model.retry",
    "RetryAfter": "rota.errors",
    "RotaError": "rota.errors",
    "Schedule": "rota.handles.schedule",
    "Snooze": "rota.errors",
    "Stale": "rota.errors",
    "Task": "rota.handles.task",
    "Workflow": "rota.handles.workflow",
    "shared_task": "rota.handles.shared_task",
}
__all__ = [
    "App", "Cancel", "Context", "Fatal", "Job", "Retry", "RetryAfter", "RotaError", "Schedule", "Snooze", "Stale",
    "Task", "Workflow", "shared_task",
]  # fmt: skip


def __getattr__(name: str) -> typing.Any:
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rota' has no attribute {name!r}")
