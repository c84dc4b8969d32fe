"""What an access key allows: its role, further permissions, and the queues and tasks that it may order.

`ROLES` is the one table of roles and permissions. The role says how far a key reaches; three permissions stay apart
from it, for they let strangers act through the hosts of the workers: commands run any program there, HTTP calls reach
any address from there, and another account of the operating system is another user's files. Only admins have them by
role. The output of jobs and the audit are apart too, for both tell more than the state of jobs.

A key acts for one user, and sees what that user owns, whatever its role. Only the role `worker` has WORK, and it has
nothing else: a node sees the jobs of all users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

import msgspec

from rota.errors import InvalidInput, NotAllowed
from rota.model.globs import glob_fits
from rota.model.job import CommandSpec, FunctionSpec, Kind, NewJob, Spec
from rota.model.limits import plain_name, word
from rota.model.principal import Principal
from rota.model.readers import one_of
from rota.model.times import Instant

MOST_GLOBS = 50
S = TypeVar("S", CommandSpec, FunctionSpec)


class Role(StrEnum):
    """The part of a user's rights that an access key has."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"
    WORKER = "worker"


class Permission(StrEnum):
    """The value names it on the command line; the comment is its meaning."""

    READ = "read"  # see own jobs with their arguments and results, own schedules, and the queues
    OUTPUT = "output"  # read the output of own jobs
    ORDER = "order"  # order registered tasks; change own jobs, workflows, schedules and gates
    COMMANDS = "commands"  # order commands
    CALLS = "calls"  # order HTTP calls
    OS_USERS = "os-users"  # order commands that run as another user or group of the operating system
    OPERATE = "operate"  # change what concerns all users: queues, limits, gates for all, nodes
    AUDIT = "audit"  # read the audit of all users
    ADMINISTER = "administer"  # add, change and remove users and access keys
    WORK = "work"  # join as a worker: claim and run jobs of all users


_READER = frozenset({Permission.READ})
_SUBMITTER = _READER | {Permission.OUTPUT, Permission.ORDER}
_OPERATOR = _SUBMITTER | {Permission.OPERATE}

ROLES: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _READER,
    Role.SUBMITTER: _SUBMITTER,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: frozenset(Permission) - {Permission.WORK},
    Role.WORKER: frozenset({Permission.WORK}),
}

# What `--allow` may add to a role.
_TO_ORDER = frozenset({Permission.COMMANDS, Permission.CALLS, Permission.OS_USERS})
EXTRAS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.OUTPUT, Permission.AUDIT}),
    Role.SUBMITTER: _TO_ORDER | {Permission.AUDIT},
    Role.OPERATOR: _TO_ORDER | {Permission.AUDIT},
    Role.ADMIN: frozenset(),
    Role.WORKER: frozenset(),
}

_DEEDS = {
    Permission.READ: "read jobs",
    Permission.OUTPUT: "read the output of jobs",
    Permission.ORDER: "order or change jobs",
    Permission.COMMANDS: "order commands",
    Permission.CALLS: "order HTTP calls",
    Permission.OS_USERS: "order commands as another user or group of the operating system",
    Permission.OPERATE: "change what concerns everyone's jobs",
    Permission.AUDIT: "read the audit",
    Permission.ADMINISTER: "administer users and keys",
    Permission.WORK: "join as a worker",
}
_NEEDED = {Kind.COMMAND: Permission.COMMANDS, Kind.HTTP: Permission.CALLS}


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one access key. `queues` and `tasks` are globs; without any, all fit. `queues` bounds orders, and
    the claims of a worker. `tasks` bounds orders of registered tasks: the names of commands and HTTP calls are chosen
    by whoever orders them."""

    key: str
    user: str
    role: Role
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    extra: tuple[Permission, ...] = ()
    expires_at: Instant | None = None

    @property
    def permissions(self) -> frozenset[Permission]:
        return _permissions(self.role, self.extra)

    @property
    def principal(self) -> Principal:
        allowed = self.permissions
        return Principal(
            self.user,
            operator=Permission.OPERATE in allowed,
            admin=Permission.ADMINISTER in allowed,
            auditor=Permission.AUDIT in allowed,
            key=self.key,
        )

    def allows(self, permission: Permission) -> bool:
        return permission in self.permissions

    def check(self, permission: Permission) -> None:
        if not self.allows(permission):
            raise self._refusal(_DEEDS[permission], f"its role is {self.role}, without the permission {permission}")

    def serves(self, queue: str) -> bool:
        """Whether the queue is in the scope of the key."""
        return _fits(self.queues, queue)

    @property
    def orders_anything(self) -> bool:
        return self.permissions >= _TO_ORDER | {Permission.ORDER} and not self.queues and not self.tasks

    def check_orders(self, jobs: Sequence[NewJob]) -> None:
        """Raises NotAllowed for the first job that the key may not order."""
        for job in jobs:
            self.check_work(job.spec, job.task, job.queue)

    def check_work(self, spec: Spec, task: str, queue: str) -> None:
        """Raises NotAllowed unless the key may order this work, in this queue: of a job or of a schedule's template."""
        self.check(Permission.ORDER)
        if spec.kind in _NEEDED:
            self.check(_NEEDED[spec.kind])
        if spec.kind is Kind.COMMAND:
            command = _decoded(spec, CommandSpec)
            if (command.user, command.group) != (None, None):
                self.check(Permission.OS_USERS)
        if not self.serves(queue):
            raise self._refusal(f"order jobs in queue {queue!r}", f"it is for {_list(self.queues, 'queue')}")
        if spec.kind is Kind.FUNCTION and self.tasks:
            for name in (task, _decoded(spec, FunctionSpec).name):
                if not _fits(self.tasks, name):
                    raise self._refusal(f"order task {name!r}", f"it is for {_list(self.tasks, 'task')}")

    def _refusal(self, deed: str, why: str) -> NotAllowed:
        return NotAllowed(self.user, f"{deed} with key {self.key}: {why}")


@lru_cache(maxsize=256)
def _permissions(role: Role, extra: tuple[Permission, ...]) -> frozenset[Permission]:
    return ROLES[role] | frozenset(extra)


def _fits(globs: Sequence[str], name: str) -> bool:
    return not globs or any(glob_fits(glob, name) for glob in globs)


def _list(globs: Sequence[str], what: str) -> str:
    return f"{what}{'s' if len(globs) > 1 else ''} {', '.join(globs)}"


def _decoded(spec: Spec, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(spec.body, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        raise InvalidInput("spec", spec.kind, f"the specification of a {spec.kind}") from None


def role(given: object) -> Role:
    return one_of(Role, given, "role")


def extra_permissions(given: Iterable[object], to: Role) -> tuple[Permission, ...]:
    """Permissions beyond those of the role; sorted, each once."""
    found = {one_of(Permission, one, "permission") for one in given}
    for one in sorted(found - ROLES[to] - EXTRAS[to]):
        more = ", ".join(sorted(EXTRAS[to])) or "nothing more"
        raise InvalidInput("permission", str(one), f"for the role {to}: {more}")
    return tuple(sorted(found - ROLES[to]))


def queue_globs(given: Iterable[object]) -> tuple[str, ...]:
    return _globs(given, "queue")


def task_globs(given: Iterable[object]) -> tuple[str, ...]:
    return _globs(given, "task")


def _globs(given: Iterable[object], what: str) -> tuple[str, ...]:
    found = sorted({plain_name(one, what) for one in given})
    if len(found) > MOST_GLOBS:
        raise InvalidInput(f"{what}s", f"{len(found)} of them", f"at most {MOST_GLOBS}")
    return tuple(found)


def user_name(given: object) -> str:
    return word(given, "user")
