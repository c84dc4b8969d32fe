"""The options as keyword parameters with types, for editors and type checkers.

`Unpack` of one of these stands in a signature where options are taken, so that each option is written here once.
`model/option_table.py` says what they mean and `model/options.py` reads them; a test holds the names together.
None counts as not given, everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from rota.handles.job import Job
    from rota.model.limits import Rate
    from rota.model.resources import Resources
    from rota.model.retry import Retry
    from rota.model.trigger.policies import CatchUp

Span = str | float | timedelta  # `90s`, seconds, or a timedelta
Size = int | str  # bytes, or `16MiB`
Names = str | Sequence[str]  # a list, or a text with commas
Moment = str | datetime  # ISO 8601 with an offset, or an aware datetime
Need = Literal["success", "finish", "failure", "fine", "trouble"]
Parent: TypeAlias = "Job[Any] | str"
WithNeed: TypeAlias = "tuple[Parent, Need]"
After: TypeAlias = "Parent | WithNeed | Collection[Parent | WithNeed] | Mapping[Parent, Need]"


class JobKeywords(TypedDict, total=False):
    """Options of tasks, of schedules and of orders."""

    priority: int | None
    queue: str | None
    retry: Retry | int | None
    timeout: Span | None
    secrets: str | Collection[str] | None
    exclusive: str | None
    rate: str | Rate | None
    limits: Mapping[str, int | str | Rate | None] | None
    full: Literal["wait", "skip", "replace"] | None
    labels: str | Collection[str] | None
    flow: str | None
    alone: str | None
    drain: Span | None
    drained: Literal["yield", "cancel"] | None


class TaskKeywords(JobKeywords, total=False):
    """Options of `@app.task`."""

    name: str | None
    aliases: Collection[str] | None
    isolation: Literal["inline", "thread", "process"] | None


class FireKeywords(JobKeywords, total=False):
    """Options of the jobs that a schedule makes."""

    expires: Span | None


class OrderKeywords(FireKeywords, total=False):
    """Options of orders."""

    at: Moment | None
    delay: Span | None
    key: str | None
    after: After | None
    on: Need | None
    name: str | None


class AboutCommand(TypedDict, total=False):
    cwd: str | None
    env: Mapping[str, str] | None
    inherit: Collection[str] | None
    fatal_exit_codes: Collection[int] | None
    stdin: str | None
    resources: Resources | Mapping[str, Any] | None
    user: str | int | None
    group: str | int | None


class CallKeywords(TypedDict, total=False):
    """Options of `app.http`."""

    headers: Mapping[str, str] | None
    json: Any
    body: str | bytes | None
    expect: int | str | Sequence[int | str] | None
    redirects: int | None
    name: str | None


class CommandOrderKeywords(OrderKeywords, AboutCommand, total=False):
    """Options of `app.submit_command`."""

    name: str | None


class CallOrderKeywords(OrderKeywords, CallKeywords, total=False):
    """Options of `app.submit_http`."""


class DeclaredKeywords(FireKeywords, total=False):
    """Options of `@app.cron` and `@app.every`."""

    tz: str | tzinfo | None
    gap: Literal["skip", "shift"] | None
    fold: Literal["first", "second", "both"] | None
    start: Moment | None
    end: Moment | None
    jitter: Span | None
    limit: int | None
    exclude: str | Collection[str] | None
    only: str | Collection[str] | None
    overlap: Literal["allow", "skip", "queue", "replace"] | None
    catch_up: Literal["none", "latest", "all"] | CatchUp | None
    catch_up_window: Span | None
    catch_up_max: int | None


class ScheduleKeywords(DeclaredKeywords, AboutCommand, total=False):
    """Options of `app.schedule`: one of the first five says when. Those of a command are for commands only."""

    rule: str | None
    cron: str | None
    every: Span | None
    rrule: str | None
    at: Moment | Collection[Moment] | None


class SettingKeywords(TypedDict, total=False):
    """Settings of `App(...)` beside its store (docs/settings.md)."""

    server: str | None
    key: str | None
    server_ca: str | None
    server_insecure: bool | None
    name: str | None
    node: str | None
    user: str | None
    roles: Names | None
    queues: str | dict[str, int] | None
    grace: Span | None
    kill_grace: Span | None
    lease: Span | None
    prefetch: int | None
    lend: bool | None
    max_args: Size | None
    max_result: Size | None
    max_output: Size | None
    spool: str | None
    retention: Span | None
    dead_retention: Span | None
    log_retention: Span | Literal["none"] | None
    log_space: Size | Literal["none"] | None
    key_retention: Span | None
    audit_retention: Span | None
    crash_limit: int | None
    unknown_grace: Span | None
    warm_processes: int | None
    pool_jobs: int | None
    pool_memory: Size | None
    command_cpu: Span | None
    command_memory: Size | None
    command_files: int | Literal["none"] | None
    command_processes: int | Literal["none"] | None
    command_file_size: Size | None
    command_user: str | None
    command_env: Names | None
    command_cgroup: str | None
    notify: bool | None
    notify_within: bool | None
    api_host: str | None
    api_port: int | None
    api_hosts: Names | None
    api_tls_cert: str | None
    api_tls_key: str | None
    api_proxies: Names | None
    api_max_body: Size | None
    api_connections: int | None
    http_allow: Names | None
    http_deny: Names | None
    http_timeout: Span | None
    http_max_body: Size | None


class AllSettingKeywords(SettingKeywords, total=False):
    """Settings of `app.configure(...)`."""

    store: str | None
    hot: str | Sequence[str] | None
    hot_memory: Size | None
