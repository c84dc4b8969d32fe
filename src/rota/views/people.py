"""Users, access keys and the audit."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.model.access import Grant, Permission, Role
from rota.model.access_keys import AccessKey, KeyState
from rota.model.limits import rate_text
from rota.model.quotas import Quotas
from rota.model.times import Instant, iso
from rota.store.people import AuditEntry, QuotaUse, UserInfo
from rota.views.moments import Moment, moment


class QuotasView(msgspec.Struct):
    """Bounds of a user; None: without a bound. `submissions`: such as 600/1m. `output`: bytes."""

    submissions: str | None
    waiting: int | None
    schedules: int | None
    running: int | None
    output: int | None

    @classmethod
    def of(cls, quotas: Quotas) -> QuotasView:
        rate = None if quotas.submissions is None else rate_text(quotas.submissions)
        return cls(rate, quotas.waiting, quotas.schedules, quotas.running, quotas.output)


class UserView(msgspec.Struct):
    """A user. `keys`: how many of its keys live."""

    name: str
    created_at: Moment
    created_by: str
    keys: int
    quotas: QuotasView

    @classmethod
    def of(cls, info: UserInfo) -> UserView:
        return cls(info.name, iso(info.created_at), info.created_by, info.keys, QuotasView.of(info.quotas))


class KeyView(msgspec.Struct):
    """An access key. `allow`: permissions beyond its role. `replaces`: the key that it was rotated from."""

    id: str
    user: str
    role: Role
    name: str
    state: KeyState
    queues: list[str]
    tasks: list[str]
    allow: list[Permission]
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    last_used_at: Moment | None
    revoked_at: Moment | None
    replaces: str | None

    @classmethod
    def of(cls, key: AccessKey, now: Instant) -> KeyView:
        return cls(
            key.id, key.user, key.role, key.name, key.state(now), list(key.queues), list(key.tasks), list(key.extra),
            iso(key.created_at), key.created_by, moment(key.expires_at), moment(key.last_used_at),
            moment(key.revoked_at), key.replaces,
        )  # fmt: skip


class NewKeyView(msgspec.Struct):
    """A key that was just made. `secret` is its text, which nobody can read again."""

    key: KeyView
    secret: str

    @classmethod
    def of(cls, key: AccessKey, text: str, now: Instant) -> NewKeyView:
        return cls(KeyView.of(key, now), text)


class AuditView(msgspec.Struct):
    """A change by a person. `key`: the id of the access key; empty: with the address of the store. `subjects`: the
    first of `total`."""

    at: Moment
    user: str
    key: str
    deed: str
    subjects: list[str]
    total: int
    data: dict[str, Any]

    @classmethod
    def of(cls, row: AuditEntry) -> AuditView:
        return cls(iso(row.at), row.user, row.key, row.deed, list(row.subjects), row.total, row.data)


class UseView(msgspec.Struct):
    """How much of its quotas a user has used. `output`: bytes, as counted for users with that quota; else 0."""

    submissions: int
    waiting: int
    schedules: int
    running: int
    output: int

    @classmethod
    def of(cls, use: QuotaUse) -> UseView:
        return cls(use.submissions, use.waiting, use.schedules, use.running, use.output)


class MeView(msgspec.Struct):
    """The user and the rights of the key of a call."""

    user: str
    key: str
    role: Role
    permissions: list[Permission]
    queues: list[str]
    tasks: list[str]
    expires_at: Moment | None
    quotas: QuotasView
    used: UseView

    @classmethod
    def of(cls, grant: Grant, quotas: Quotas, use: QuotaUse) -> MeView:
        return cls(
            grant.user, grant.key, grant.role, sorted(grant.permissions), list(grant.queues), list(grant.tasks),
            moment(grant.expires_at), QuotasView.of(quotas), UseView.of(use),
        )  # fmt: skip
