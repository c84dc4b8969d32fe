"""A job as an order (`NewJob`), as claimed by a worker (`Claimed`) and as shown to people (`JobInfo`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec

from rota.errors import InvalidInput
from rota.model import http, secrets
from rota.model.graph import Edge, edges
from rota.model.lifecycle import TERMINAL, State
from rota.model.limits import Key, word
from rota.model.outcome import Ending, Problem, Usage
from rota.model.progress import Progress
from rota.model.rank import DEFAULT_PRIORITY
from rota.model.readers import whole
from rota.model.requirements import NO_REQUIREMENTS, Alone, Requirements
from rota.model.resources import NO_BOUNDS, Resources
from rota.model.resources import resources as read_resources
from rota.model.retry import Retry
from rota.model.times import Duration, Instant

DEFAULT_QUEUE = "default"
NO_RETRY = Retry(0)
HIGHEST_ID = 2**32 - 1  # of users and groups; the last one means "none" to the system
LONGEST_VARIABLE = 1_000
_canonical = msgspec.json.Encoder(order="deterministic")


class Kind(StrEnum):
    FUNCTION = "function"
    COMMAND = "command"
    HTTP = "http"


class FunctionSpec(msgspec.Struct, frozen=True):
    name: str


class CommandSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    argv: list[str]
    cwd: str | None = None
    env: dict[str, str] = {}
    fatal_exit_codes: list[int] = []
    stdin: str = ""
    resources: Resources = NO_BOUNDS
    user: str | int | None = None
    group: str | int | None = None
    inherit: list[str] = []  # names of variables of the node


class Spec(msgspec.Struct, frozen=True):
    """The work of a job as a value: its kind, its specification as JSON, and the digest that names it."""

    kind: Kind
    body: str
    digest: str

    @classmethod
    def of(cls, kind: Kind, body: FunctionSpec | CommandSpec | http.HttpSpec) -> Spec:
        text = _canonical.encode(body)
        return cls._named(kind, text)

    @classmethod
    def _named(cls, kind: Kind, text: bytes) -> Spec:
        return cls(kind, text.decode(), hashlib.sha256(kind.encode() + b"\0" + text).hexdigest())

    @classmethod
    def function(cls, name: str) -> Spec:
        return cls.of(Kind.FUNCTION, FunctionSpec(name))

    @classmethod
    def command(
        cls,
        argv: Sequence[str],
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        fatal_exit_codes: Sequence[int] | None = (),
        stdin: str | None = None,
        resources: Resources | Mapping[str, Any] | None = None,
        user: str | int | None = None,
        group: str | int | None = None,
        inherit: Sequence[str] | None = (),
    ) -> Spec:
        _check_texts(argv, cwd, env)
        codes = fatal_exit_codes or ()
        _check_codes(codes)
        _check_text("stdin", "" if stdin is None else stdin, nul=True)
        bounds = read_resources({} if resources is None else resources)
        command = CommandSpec(
            list(argv), cwd, dict(env or {}), sorted(set(codes)), stdin or "", bounds, _account("user", user),
            _account("group", group), _names(inherit),
        )  # fmt: skip
        return cls.of(Kind.COMMAND, command)

    @classmethod
    def http(
        cls,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: str | bytes | None = None,
        expect: object = None,
        redirects: int = http.DEFAULT_REDIRECTS,
    ) -> Spec:
        return cls.of(Kind.HTTP, http.call(method, url, headers, body, expect, redirects))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of secret arguments and environment variables. They stand beside the work of any kind."""
        return secrets.declared(self.body)

    def with_secrets(self, names: Sequence[str]) -> Spec:
        if not names:
            return self
        return self._named(self.kind, _canonical.encode(msgspec.json.decode(self.body) | {"secrets": list(names)}))


def shown_order(kind: str, spec: dict[str, Any], args: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Specification and arguments without secrets."""
    args, spec = secrets.shown(args, spec)
    return (http.shown(spec) if kind == Kind.HTTP else spec), args


def _check_texts(argv: object, cwd: object, env: object) -> None:
    if not isinstance(argv, list | tuple):
        raise InvalidInput("command", argv, "a list of arguments such as ['echo', 'hello']")
    if not argv or not argv[0]:
        raise InvalidInput("command", argv, "a program and its arguments; it is empty")
    if env is not None and not isinstance(env, Mapping):
        raise InvalidInput("env", env, "a mapping of names to texts")
    variables = dict(env or {})
    for text in argv:
        _check_text("command", text)
    _check_text("cwd", "" if cwd is None else cwd)
    if isinstance(cwd, str) and not cwd.startswith("/"):  # client and node run in different folders
        raise InvalidInput("cwd", cwd, "an absolute path such as /srv/reports")
    for text in (*variables, *variables.values()):
        _check_text("env", text)
    for name in variables:
        if not name or "=" in name:
            raise InvalidInput("env", name, "names without '='")


def _check_text(what: str, text: object, nul: bool = False) -> None:
    if not isinstance(text, str):
        raise InvalidInput(what, text, "a text" if nul else "texts (of paths and numbers: str(...))")
    if "\0" in text and not nul:
        raise InvalidInput(what, text, "texts without NUL characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(what, text, "texts in UTF-8") from None


def _check_codes(codes: object) -> None:
    if not isinstance(codes, list | tuple | set | frozenset):
        raise InvalidInput("fatal exit codes", codes, "a list of whole numbers from 1 to 255")
    for code in codes:
        whole(code, "fatal exit code", 1, 255)


def _account(what: str, given: object) -> str | int | None:
    """A user or a group, by name or number. Only the node that runs the command can check that it exists."""
    if given is None:
        return None
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 12:
        given = int(given)
    number = isinstance(given, int) and not isinstance(given, bool) and 0 <= given < HIGHEST_ID
    name = isinstance(given, str) and 0 < len(given) <= 64 and given.isprintable() and not set(given) & set(" :/")
    if not number and not name:
        raise InvalidInput(what, given, f"the name or number of a {what}")
    return cast("str | int", given)


def _names(given: object) -> list[str]:
    if given is not None and (isinstance(given, str) or not isinstance(given, Sequence | set | frozenset)):
        raise InvalidInput("inherit", given, "a list of names of environment variables")
    return sorted({variable(name, "inherit") for name in cast("Sequence[object]", given or ())})


def variable(name: object, what: str) -> str:
    _check_text(what, name)
    if not isinstance(name, str) or not name or "=" in name or len(name) > LONGEST_VARIABLE:
        raise InvalidInput(what, name, "the name of an environment variable")
    return name


class Membership(msgspec.Struct, frozen=True, gc=False):
    """The workflow that a job belongs to: a new one of this order, or an existing one."""

    id: str
    name: str = ""
    new: bool = True


def queue_name(given: object) -> str:
    return word(given, "queue")


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The options that reach the job as they were given: the base of options, orders and templates of orders."""

    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    retry: Retry = Retry()
    timeout: Duration | None = None  # of each attempt


def shared(source: msgspec.Struct, target: type[msgspec.Struct]) -> dict[str, Any]:
    """The fields that a value has in common with another struct type, as arguments for that type."""
    names, values = _shared_fields(type(source), target)
    return dict(zip(names, values(source), strict=True))


@cache
def _shared_fields(source: type[msgspec.Struct], target: type[msgspec.Struct]) -> tuple[list[str], attrgetter[Any]]:
    names = [name for name in target.__struct_fields__ if name in source.__struct_fields__]
    return names, attrgetter(*names)


class NewJob(Terms, frozen=True, gc=False):
    """One order, checked and ready to be written. `at` is absolute, `delay` counts from the store's clock."""

    id: str
    task: str
    spec: Spec
    args: str = "{}"  # JSON
    at: Instant | None = None
    delay: Duration = 0
    expires: Duration | None = None  # counted from the moment it is due
    key: str | None = None
    after: tuple[Edge, ...] = ()
    workflow: Membership | None = None
    job_name: str = ""  # in its workflow
    requirements: Requirements = NO_REQUIREMENTS
    meta: str | None = None  # JSON that submit hooks have added; no part of the content

    @property
    def plain(self) -> bool:
        """It has no key, parents, workflow, labels or limits."""
        return self.key is None and not self.after and self.workflow is None and not self.requirements

    def content(self, places: Mapping[str, int] | None = None) -> str:
        """The digest of the order: the same key must come with the same content. `places`: positions of the jobs of the
        same order, used instead of their ids, which differ in a repeated order."""
        parts: tuple[Any, ...] = (
            self.task, self.spec.digest, self.args, self.queue, self.priority, self.at, self.delay,
            self.retry.parts(), self.timeout, self.expires,
        )  # fmt: skip
        if self.after:
            known = places or {}
            edges = [(str(known.get(edge.parent, edge.parent)), edge.need, edge.fills) for edge in self.after]
            parts += ([edge if edge[2] else edge[:2] for edge in edges],)
        if self.job_name:
            parts += ("name", self.job_name)
        if self.requirements:
            parts += (self.requirements.text,)
        return hashlib.sha256(_canonical.encode(parts)).hexdigest()


def same_keys(jobs: Sequence[NewJob]) -> list[NewJob]:
    """Jobs of one order with the same key are one job: edges to the others lead to the first of them."""
    first: dict[str, str] = {}
    same = {job.id: first.setdefault(job.key, job.id) for job in jobs if job.key is not None}
    if all(job == known for job, known in same.items()):
        return list(jobs)
    return [
        msgspec.structs.replace(
            job, after=edges(Edge(same.get(e.parent, e.parent), e.need, e.fills) for e in job.after)
        )
        for job in jobs
    ]


def keyed_last(jobs: Sequence[NewJob], last: Sequence[NewJob]) -> list[NewJob]:
    """The last jobs of a workflow. If all its other jobs have keys, each of these gets one too: the same order again
    must make none of them twice."""
    keys = [job.key for job in jobs]
    if None in keys:
        return list(last)
    whole = hashlib.sha256(_canonical.encode(keys)).hexdigest()
    return [
        job if job.key is not None else msgspec.structs.replace(job, key=f"last:{number}:{whole}")
        for number, job in enumerate(last)
    ]


class Submitted(msgspec.Struct, frozen=True, gc=False):
    id: str
    created: bool  # False: the key was known and this is the job it made before


class Ref(msgspec.Struct, frozen=True, gc=False):
    """An attempt, as its writes name it."""

    job_id: str
    fence: int


class Verdict(StrEnum):
    """The store's answer to a fenced write."""

    APPLIED = "applied"
    ALREADY = "already"  # a repeat after a lost reply; the first call was applied
    STALE = "stale"  # the job has moved on; nothing was changed
    EARLY = "early"  # to late output: the attempt still runs; nothing was changed, and a later try may be applied


class Claimed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The data a worker needs to run one attempt. Texts stay undecoded: a broken text must not fail its batch."""

    job_id: str
    fence: int
    owner: str
    queue: str
    kind: str
    task: str
    priority: int
    rank: int
    number: int  # of this attempt, counted from 1
    failures: int
    started_at: Instant | None  # None: claimed ahead, to be started by `start`
    spec: str
    args: str
    retry: str
    timeout: Duration | None
    parents: int = 0  # number of jobs it was ordered after
    slack: Duration | None = None  # it must start within this time of its claim, or its rate would not hold
    crashes: int = 0  # how often its node or process died during an attempt
    flow: str = ""  # the name of its flow, within those of its owner
    state: str | None = None  # saved by an earlier attempt, as JSON
    meta: str | None = None  # added by submit hooks, as JSON

    @property
    def ref(self) -> Ref:
        return Ref(self.job_id, self.fence)


class AttemptInfo(msgspec.Struct, frozen=True):
    number: int
    fence: int
    node: str
    started_at: datetime
    finished_at: datetime | None = None
    outcome: Ending | None = None  # None while it runs
    exit_code: int | None = None
    error: Problem | None = None
    usage: Usage | None = None


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job with all its details at one moment."""

    id: str
    owner: str
    task: str
    kind: Kind
    spec: dict[str, Any]
    args: dict[str, Any]
    queue: str
    priority: int
    state: State
    reason: str | None = None  # why it was cancelled, skipped, set aside, retried...
    run_at: datetime
    created_at: datetime
    started_at: datetime | None = None  # of the latest attempt
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    timeout: timedelta | None = None
    retry: Retry = NO_RETRY
    fence: int = 0
    failures: int = 0
    crashes: int = 0
    interruptions: int = 0
    replays: int = 0
    node: str | None = None
    cancelling: bool = False  # running, and asked to stop
    key: str | None = None
    schedule: str | None = None  # the schedule that made it,
    fire_time: datetime | None = None  # and for which time
    workflow: str | None = None
    name: str = ""  # in its workflow
    requirements: Requirements = NO_REQUIREMENTS
    meta: dict[str, Any] = {}  # added by submit hooks
    progress: Progress | None = None  # the latest report
    attempts: list[AttemptInfo] = []
    result: Any = None
    error: Problem | None = None
    error_group: str | None = None  # failed: the id of its group of errors

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def labels(self) -> tuple[str, ...]:
        return self.requirements.labels

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of limits that it needs."""
        return self.requirements.keys

    @property
    def alone(self) -> Alone | None:
        """The jobs that must not run beside it."""
        return self.requirements.alone
