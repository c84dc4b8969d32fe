"""The contract of a store, part users: users, access keys, quotas and the audit; see `store.base` for what all verbs
share.

A user exists for whoever orders by access keys: clients with the address of the store name any user. The store keeps no
key, only the hash of its text. There is always a live admin key once there was one: verbs that would end the last one
are refused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import msgspec

from rota.model.access import Grant
from rota.model.access_keys import AccessKey, NewKey
from rota.model.principal import Principal
from rota.model.quotas import NO_QUOTAS, Quotas
from rota.model.times import Duration, Instant
from rota.store.deeds import about
from rota.store.verbs import ADMIN, NODE, READ, WRITE, Verbs, verb


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    created_at: Instant
    created_by: str
    keys: int = 0  # live ones
    quotas: Quotas = NO_QUOTAS


class QuotaUse(msgspec.Struct, frozen=True):
    """How much of its quotas a user has used. `output` is counted only for users with a quota for it."""

    submissions: int = 0
    waiting: int = 0
    schedules: int = 0
    running: int = 0
    output: int = 0  # bytes


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows of the audit; all given conditions must hold. Latest first."""

    user: str | None = None  # who did it
    deed: str | None = None
    since: Instant | None = None  # or then
    until: Instant | None = None  # before
    after: tuple[Instant, int] | None = None  # the next page begins behind this row
    limit: int = 100


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: Instant
    user: str
    key: str  # the id of the access key; "": with the address of the store
    deed: str  # the verb
    subjects: tuple[str, ...]  # the first of them
    total: int
    data: dict[str, Any]

    @property
    def place(self) -> tuple[Instant, int]:
        return self.at, self.seq


class People(Verbs):
    # -- users -------------------------------------------------------------------------------------------------------
    @verb(WRITE, ADMIN, "change users", audit=about("name", "quotas"))
    @abstractmethod
    async def put_user(self, who: Principal, /, name: str, quotas: Quotas, new: bool) -> bool:
        """Adds a user (`new`), or changes its quotas. False, and nothing is changed, if a new one is there already, or
        another is not."""

    @verb(WRITE, ADMIN, "remove users", audit=about("name", done=lambda revoked: revoked is not None))
    @abstractmethod
    async def remove_user(self, who: Principal, /, name: str) -> int | None:
        """Removes a user and revokes the keys; jobs and schedules stay. Returns how many keys it revoked. None: there
        is no such user. Refused for the user of the last admin key (NotAllowed)."""

    @verb(READ)
    @abstractmethod
    async def users(self, who: Principal, /, names: Sequence[str] | None = None) -> list[UserInfo]:
        """Users by name. Principals that are no admins see themselves."""

    @verb(READ)
    @abstractmethod
    async def quota_use(self, who: Principal, /) -> QuotaUse:
        """How much of its quotas the user of the principal has used. Counts its living jobs."""

    # -- keys --------------------------------------------------------------------------------------------------------
    @verb(
        WRITE, ADMIN, "add keys",
        audit=about(
            "new.id", "new.user", "new.role", "new.extra", "new.queues", "new.tasks", "new.name", "new.expires_at"
        ),
    )  # fmt: skip
    @abstractmethod
    async def add_key(self, who: Principal, /, new: NewKey) -> AccessKey:
        """Adds a key. A user that is not there raises NotFound, an id or a hash that is InvalidInput."""

    @verb(WRITE, ADMIN, "revoke keys", audit=about("key_id"))
    @abstractmethod
    async def revoke_key(self, who: Principal, /, key_id: str) -> bool:
        """Ends a key at once. False if there is no such key or it was revoked before. Refused for the last admin key
        (NotAllowed)."""

    @verb(WRITE, audit=about("key_id", "new_id", "overlap", "expires_at", done=lambda key: key is not None))
    @abstractmethod
    async def rotate_key(
        self, who: Principal, /, key_id: str, new_id: str, new_hash: str, overlap: Duration, expires_at: Instant | None
    ) -> AccessKey | None:
        """Adds a key with the rights of another, which expires after the overlap at the latest. Admins rotate any key,
        others the key that they use. None: no such key lives."""

    @verb(READ, ADMIN, "list keys")
    @abstractmethod
    async def keys(self, who: Principal, /, user: str | None = None, past: bool = False) -> list[AccessKey]:
        """Live keys (with `past`, also those that expired or were revoked), by user and age."""

    # -- what API nodes do -------------------------------------------------------------------------------------------
    @verb(READ, NODE, "look up keys of")
    @abstractmethod
    async def grant_of(self, who: Principal, /, key_hash: str) -> Grant | None:
        """What the key of this hash allows; None if there is no such key, or it lives no more."""

    @verb(WRITE, NODE, "record keys of", batch="used", nothing=NoneType)
    @abstractmethod
    async def touch_keys(self, who: Principal, /, used: Mapping[str, Instant]) -> None:
        """Records the last use of keys, by their ids."""

    @verb(WRITE, NODE, "count output of")
    @abstractmethod
    async def count_output(self, who: Principal, /) -> int:
        """Counts the kept output of users with a quota for it whose last count is too old; returns how many users."""

    @verb(WRITE, NODE, "add keys of")
    @abstractmethod
    async def add_first_key(self, who: Principal, /, new: NewKey) -> bool:
        """Adds an admin key, and its user, unless an admin key lives. Of several nodes at once one adds its key."""

    # -- audit -------------------------------------------------------------------------------------------------------
    @verb(READ)
    @abstractmethod
    async def audit(self, who: Principal, /, query: AuditFilter) -> list[AuditEntry]:
        """Rows that fit, latest first. Principals that are no auditors see what their user did."""
