"""rota: a distributed job scheduler. `App`, `@app.task`, `.submit()`; see README.md."""

from __future__ import annotations

import typing

__version__ = "0.1.0"

# The public names and their homes. They are loaded when first used: `rota --help` and programs that only submit must
# not wait for what they don't need. A test holds the imports below, for type checkers and editors, against this table.
_NAMES = {
    "rota.app": ["App"],
    "rota.views.jobs": ["Explanation", "WaitReason"],
    "rota.clients.schedules": ["BackfillProgress"],
    "rota.clients.job_queries": ["Changes"],
    "rota.errors": [
        "AnswerNotKept", "ChangedMeanwhile", "IdempotencyKeyReused", "IllegalEvent", "InvalidArguments", "InvalidInput",
        "InvalidQuery", "JobFailed", "KeyConflict", "LockLost", "LockTaken", "NotAllowed", "NotFaked", "NotFound",
        "NotSerialisable", "QuotaExceeded", "RepeatInFlight", "ResultMismatch", "RotaError", "SchemaMissing",
        "SchemaTooNew", "Stale", "StoreDenied", "StoreError", "StoreFull", "StoreReadOnly", "StoreUnavailable",
        "TooLarge", "UnknownTask", "WaitTimeout", "WrongVersion",
    ],
    "rota.handles.job": ["Job"],
    "rota.handles.jobs": ["JobQuery"],
    "rota.handles.keywords": [
        "CallKeywords", "CallOrderKeywords", "CommandOrderKeywords", "DeclaredKeywords", "OrderKeywords",
        "ScheduleKeywords", "SettingKeywords", "TaskKeywords",
    ],
    "rota.handles.lock": ["Lock", "SyncLock"],
    "rota.handles.logs": ["Logs"],
    "rota.handles.schedule": ["Schedule"],
    "rota.handles.shared_task": ["shared_task"],
    "rota.handles.stub": ["Stub"],
    "rota.handles.task": ["Task"],
    "rota.handles.workflow": ["Workflow"],
    "rota.handles.workflow_builder": ["WorkflowBuilder"],
    "rota.model.error_groups": ["ErrorGroup"],
    "rota.model.graph": ["Need", "ParentInfo"],
    "rota.model.job": ["AttemptInfo", "JobInfo", "Kind"],
    "rota.model.lifecycle": ["State"],
    "rota.model.locks": ["LockInfo"],
    "rota.model.outcome": ["Ending", "Problem", "Usage"],
    "rota.model.progress": ["Progress"],
    "rota.model.retry": ["Retry"],
    "rota.model.trigger.records": ["FireInfo", "ScheduleInfo"],
    "rota.orders": ["HttpCall"],
    "rota.signals": ["Cancel", "Fatal", "RetryAfter", "Snooze", "TaskSignal"],
    "rota.store.found_lines": ["FoundLine"],
    "rota.store.graph": ["WorkflowInfo", "WorkflowJob"],
    "rota.store.values": ["Cancelling", "Chunk", "Facet", "Facets", "JobCount"],
    "rota.tasks.context": ["Context", "RunningJob"],
    "rota.tasks.hooks": ["AttemptEnd", "ProcessInfo", "Submission"],
    "rota.tasks.modules": ["ImportFailed"],
}  # fmt: skip
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
__all__ = sorted(_HOMES)

if typing.TYPE_CHECKING:
    from rota.app import App as App
    from rota.clients.job_queries import Changes as Changes
    from rota.clients.schedules import BackfillProgress as BackfillProgress
    from rota.errors import AnswerNotKept as AnswerNotKept
    from rota.errors import ChangedMeanwhile as ChangedMeanwhile
    from rota.errors import IdempotencyKeyReused as IdempotencyKeyReused
    from rota.errors import IllegalEvent as IllegalEvent
    from rota.errors import InvalidArguments as InvalidArguments
    from rota.errors import InvalidInput as InvalidInput
    from rota.errors import InvalidQuery as InvalidQuery
    from rota.errors import JobFailed as JobFailed
    from rota.errors import KeyConflict as KeyConflict
    from rota.errors import LockLost as LockLost
    from rota.errors import LockTaken as LockTaken
    from rota.errors import NotAllowed as NotAllowed
    from rota.errors import NotFaked as NotFaked
    from rota.errors import NotFound as NotFound
    from rota.errors import NotSerialisable as NotSerialisable
    from rota.errors import QuotaExceeded as QuotaExceeded
    from rota.errors import RepeatInFlight as RepeatInFlight
    from rota.errors import ResultMismatch as ResultMismatch
    from rota.errors import RotaError as RotaError
    from rota.errors import SchemaMissing as SchemaMissing
    from rota.errors import SchemaTooNew as SchemaTooNew
    from rota.errors import Stale as Stale
    from rota.errors import StoreDenied as StoreDenied
    from rota.errors import StoreError as StoreError
    from rota.errors import StoreFull as StoreFull
    from rota.errors import StoreReadOnly as StoreReadOnly
    from rota.errors import StoreUnavailable as StoreUnavailable
    from rota.errors import TooLarge as TooLarge
    from rota.errors import UnknownTask as UnknownTask
    from rota.errors import WaitTimeout as WaitTimeout
    from rota.errors import WrongVersion as WrongVersion
    from rota.handles.job import Job as Job
    from rota.handles.jobs import JobQuery as JobQuery
    from rota.handles.keywords import CallKeywords as CallKeywords
    from rota.handles.keywords import CallOrderKeywords as CallOrderKeywords
    from rota.handles.keywords import CommandOrderKeywords as CommandOrderKeywords
    from rota.handles.keywords import DeclaredKeywords as DeclaredKeywords
    from rota.handles.keywords import OrderKeywords as OrderKeywords
    from rota.handles.keywords import ScheduleKeywords as ScheduleKeywords
    from rota.handles.keywords import SettingKeywords as SettingKeywords
    from rota.handles.keywords import TaskKeywords as TaskKeywords
    from rota.handles.lock import Lock as Lock
    from rota.handles.lock import SyncLock as SyncLock
    from rota.handles.logs import Logs as Logs
    from rota.handles.schedule import Schedule as Schedule
    from rota.handles.shared_task import shared_task as shared_task
    from rota.handles.stub import Stub as Stub
    from rota.handles.task import Task as Task
    from rota.handles.workflow import Workflow as Workflow
    from rota.handles.workflow_builder import WorkflowBuilder as WorkflowBuilder
    from rota.model.error_groups import ErrorGroup as ErrorGroup
    from rota.model.graph import Need as Need
    from rota.model.graph import ParentInfo as ParentInfo
    from rota.model.job import AttemptInfo as AttemptInfo
    from rota.model.job import JobInfo as JobInfo
    from rota.model.job import Kind as Kind
    from rota.model.lifecycle import State as State
    from rota.model.locks import LockInfo as LockInfo
    from rota.model.outcome import Ending as Ending
    from rota.model.outcome import Problem as Problem
    from rota.model.outcome import Usage as Usage
    from rota.model.progress import Progress as Progress
    from rota.model.retry import Retry as Retry
    from rota.model.trigger.records import FireInfo as FireInfo
    from rota.model.trigger.records import ScheduleInfo as ScheduleInfo
    from rota.orders import HttpCall as HttpCall
    from rota.signals import Cancel as Cancel
    from rota.signals import Fatal as Fatal
    from rota.signals import RetryAfter as RetryAfter
    from rota.signals import Snooze as Snooze
    from rota.signals import TaskSignal as TaskSignal
    from rota.store.found_lines import FoundLine as FoundLine
    from rota.store.graph import WorkflowInfo as WorkflowInfo
    from rota.store.graph import WorkflowJob as WorkflowJob
    from rota.store.values import Cancelling as Cancelling
    from rota.store.values import Chunk as Chunk
    from rota.store.values import Facet as Facet
    from rota.store.values import Facets as Facets
    from rota.store.values import JobCount as JobCount
    from rota.tasks.context import Context as Context
    from rota.tasks.context import RunningJob as RunningJob
    from rota.tasks.hooks import AttemptEnd as AttemptEnd
    from rota.tasks.hooks import ProcessInfo as ProcessInfo
    from rota.tasks.hooks import Submission as Submission
    from rota.tasks.modules import ImportFailed as ImportFailed
    from rota.views.jobs import Explanation as Explanation
    from rota.views.jobs import WaitReason as WaitReason


def __getattr__(name: str) -> typing.Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found  # so that the next look finds it at once
    return found


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
