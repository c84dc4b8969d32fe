"""What an access key allows, by its role, its further permissions and its scope."""

from __future__ import annotations

from typing import Any

import pytest

from rota.errors import InvalidInput, NotAllowed
from rota.model.access import (
    EXTRAS,
    ROLES,
    Grant,
    Permission,
    Role,
    extra_permissions,
    queue_globs,
    role,
    task_globs,
)
from rota.model.job import Kind, NewJob, Spec
from rota.model.principal import Principal

ORDINARY = NewJob(id="1", task="mail.welcome", spec=Spec.function("mail.welcome"))
COMMAND = NewJob(id="1", task="date", spec=Spec.command(["date"]))
AS_ROOT = NewJob(id="1", task="date", spec=Spec.command(["date"], user="root"))
IN_GROUP = NewJob(id="1", task="date", spec=Spec.command(["date"], group=0))
CALL = NewJob(id="1", task="example.org", spec=Spec.http("GET", "https://example.org"))


def grant(role: Role = Role.SUBMITTER, *extra: Permission, **scope: Any) -> Grant:
    return Grant(key="k1", user="ann", role=role, extra=extra, **scope)


def may_order(grant: Grant, job: NewJob) -> bool:
    try:
        grant.check_orders([job])
    except NotAllowed:
        return False
    return True


def test_every_role_is_in_both_tables() -> None:
    assert set(ROLES) == set(EXTRAS) == set(Role)


def test_a_worker_does_nothing_else_and_nobody_else_works() -> None:
    assert ROLES[Role.WORKER] == {Permission.WORK}
    assert [role for role in Role if Permission.WORK in ROLES[role] | EXTRAS[role]] == [Role.WORKER]


def test_only_admins_have_the_dangerous_permissions_by_role() -> None:
    for permission in (Permission.COMMANDS, Permission.CALLS, Permission.OS_USERS, Permission.AUDIT):
        assert [role for role in Role if permission in ROLES[role]] == [Role.ADMIN]


def test_a_check_names_user_deed_key_and_role() -> None:
    with pytest.raises(NotAllowed, match="user 'ann' may not administer users and keys with key k1: its role is sub"):
        grant().check(Permission.ADMINISTER)
    grant().check(Permission.READ)


@pytest.mark.parametrize(
    ("extra", "allowed"),
    [
        ((), [ORDINARY]),
        ((Permission.CALLS,), [ORDINARY, CALL]),
        ((Permission.COMMANDS,), [ORDINARY, COMMAND]),
        ((Permission.OS_USERS,), [ORDINARY]),
        ((Permission.COMMANDS, Permission.OS_USERS), [ORDINARY, COMMAND, AS_ROOT, IN_GROUP]),
    ],
)
def test_commands_calls_and_accounts_need_their_own_permissions(
    extra: tuple[Permission, ...], allowed: list[NewJob]
) -> None:
    for given in (Role.SUBMITTER, Role.OPERATOR):
        jobs = (ORDINARY, COMMAND, AS_ROOT, IN_GROUP, CALL)
        assert [job for job in jobs if may_order(grant(given, *extra), job)] == allowed


def test_admins_order_everything_and_viewers_and_workers_nothing() -> None:
    for job in (ORDINARY, COMMAND, AS_ROOT, CALL):
        assert may_order(grant(Role.ADMIN), job)
        assert not may_order(grant(Role.VIEWER, Permission.OUTPUT), job)
        assert not may_order(grant(Role.WORKER), job)


def test_orders_fit_the_queues_and_tasks_of_the_key() -> None:
    bound = grant(Role.ADMIN, queues=("default", "mail*"), tasks=("mail.*",))
    bound.check_orders([ORDINARY])
    with pytest.raises(NotAllowed, match="order jobs in queue 'slow' with key k1: it is for queues default, mail"):
        bound.check_work(ORDINARY.spec, ORDINARY.task, "slow")
    with pytest.raises(NotAllowed, match="order task 'pay' with key k1: it is for task mail"):
        bound.check_work(Spec.function("pay"), "pay", "default")
    assert bound.serves("mail2")
    assert not bound.serves("Mail")


def test_a_fitting_name_does_not_hide_another_function() -> None:
    with pytest.raises(NotAllowed, match="order task 'pay'"):
        grant(tasks=("mail.*",)).check_work(Spec.function("pay"), "mail.welcome", "default")


def test_a_specification_of_another_kind_is_refused() -> None:
    lying = Spec(Kind.COMMAND, '{"name": "mail"}', "")
    with pytest.raises(InvalidInput, match="specification of a command"):
        grant(Role.ADMIN).check_work(lying, "date", "default")


def test_the_principal_has_the_rights_of_the_key() -> None:
    assert grant().principal == Principal("ann", key="k1")
    assert grant(Role.OPERATOR).principal == Principal("ann", operator=True, key="k1")
    assert grant(Role.VIEWER, Permission.AUDIT).principal == Principal("ann", auditor=True, key="k1")
    admin = grant(Role.ADMIN).principal
    assert admin == Principal("ann", operator=True, admin=True, auditor=True, key="k1")
    assert admin.sees == "ann", "admins too see only their own jobs"
    assert not grant(Role.WORKER).principal.system


def test_permissions_beyond_a_role() -> None:
    assert extra_permissions(["commands", "calls", "commands"], Role.SUBMITTER) == (
        Permission.CALLS,
        Permission.COMMANDS,
    )
    assert extra_permissions(["read", "commands"], Role.ADMIN) == (), "the role has them"
    with pytest.raises(InvalidInput, match="'commands' is not valid; expected for the role viewer: audit, output"):
        extra_permissions(["commands"], Role.VIEWER)
    with pytest.raises(InvalidInput, match="nothing more"):
        extra_permissions(["read"], Role.WORKER)
    with pytest.raises(InvalidInput, match="one of read, output, order"):
        extra_permissions(["fly"], Role.ADMIN)


def test_wrong_roles_and_globs() -> None:
    with pytest.raises(InvalidInput, match="role: 'boss' is not valid; expected one of viewer, submitter"):
        role("boss")
    assert queue_globs(["b", "a*", "b"]) == ("a*", "b")
    for wrong in ("", " a", "a\n", None, "x" * 201):
        with pytest.raises(InvalidInput, match=r"^task"):
            task_globs([wrong])
    with pytest.raises(InvalidInput, match="at most 50"):
        queue_globs(map(str, range(51)))
