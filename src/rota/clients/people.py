"""The client for users, access keys and the audit. The command line and the HTTP API use it.

It makes the text of a key, hands its hash to the store, and returns the text: no one can read it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rota.clock import Chance
from rota.errors import InvalidInput, NotFound
from rota.model.access import extra_permissions, queue_globs, role, task_globs, user_name
from rota.model.access_keys import AccessKey, NewKey, key_hash, key_name, key_text
from rota.model.principal import SYSTEM, Principal
from rota.model.quotas import NO_QUOTAS, Quotas, quotas
from rota.model.times import DAY, Duration, Instant
from rota.store.base import Store
from rota.store.people import AuditEntry, AuditFilter, QuotaUse, UserInfo

OVERLAP: Duration = DAY  # of a rotated key, unless another is given


class ShownOnce(NamedTuple):
    """A key that was just made, with its text."""

    key: AccessKey
    text: str


class PeopleClient:
    def __init__(self, store: Store, who: Principal, chance: Chance) -> None:
        self._store, self._who, self._chance = store, who, chance

    # -- users -------------------------------------------------------------------------------------------------------
    async def add_user(self, name: object, bounds: str | Mapping[str, object] | None = None) -> UserInfo:
        chosen = user_name(name)
        if not await self._store.put_user(self._who, chosen, quotas(bounds or {}), new=True):
            raise InvalidInput("user", chosen, "a name that no other user has")
        return await self.user(chosen)

    async def set_quotas(self, name: str, bounds: str | Mapping[str, object]) -> UserInfo:
        """Bounds that are not named stay as they are."""
        chosen = quotas(bounds, (await self.user(name)).quotas)
        if not await self._store.put_user(self._who, name, chosen, new=False):
            raise NotFound("user", name)
        return await self.user(name)

    async def remove_user(self, name: str) -> int:
        """Returns how many keys it revoked."""
        revoked = await self._store.remove_user(self._who, user_name(name))
        if revoked is None:
            raise NotFound("user", name)
        return revoked

    async def user(self, name: str) -> UserInfo:
        for found in await self._store.users(self._who, [user_name(name)]):
            return found
        raise NotFound("user", name)

    async def quotas(self) -> Quotas:
        """Of the user of this client."""
        found = await self._store.users(self._who, [self._who.user])
        return found[0].quotas if found else NO_QUOTAS

    async def use(self) -> QuotaUse:
        """How much of them is used."""
        return await self._store.quota_use(self._who)

    async def users(self) -> list[UserInfo]:
        return await self._store.users(self._who)

    # -- keys --------------------------------------------------------------------------------------------------------
    async def add_key(
        self,
        user: object,
        of_role: object,
        *,
        queues: Iterable[object] = (),
        tasks: Iterable[object] = (),
        allow: Iterable[object] = (),
        expires_at: Instant | None = None,
        name: object = "",
    ) -> ShownOnce:
        chosen = role(of_role)
        key_id, text = self._new()
        new = NewKey(
            id=key_id, hash=key_hash(text), user=user_name(user), role=chosen, queues=queue_globs(queues),
            tasks=task_globs(tasks), extra=extra_permissions(allow, chosen), expires_at=expires_at, name=key_name(name),
        )  # fmt: skip
        return ShownOnce(await self._store.add_key(self._who, new), text)

    async def rotate_key(self, key: str, overlap: Duration = OVERLAP, expires_at: Instant | None = None) -> ShownOnce:
        new_id, text = self._new()
        found = await self._store.rotate_key(self._who, key, new_id, key_hash(text), overlap, expires_at)
        if found is None:
            raise NotFound("key", key)
        return ShownOnce(found, text)

    async def revoke_key(self, key: str) -> None:
        if not await self._store.revoke_key(self._who, key):
            raise NotFound("key", key)

    async def keys(self, user: str | None = None, past: bool = False) -> list[AccessKey]:
        return await self._store.keys(self._who, None if user is None else user_name(user), past)

    def _new(self) -> tuple[str, str]:
        key_id = self._chance.token()
        return key_id, key_text(key_id, self._chance.secret())

    # -- audit -------------------------------------------------------------------------------------------------------
    async def audit(self, query: AuditFilter) -> list[AuditEntry]:
        return await self._store.audit(self._who, query)


async def first_admin_key(store: Store, user: str, chance: Chance) -> str | None:
    """Makes the first admin key of a store, for this user, and returns its text. None: an admin key lives. Of several
    nodes that start at once, one makes a key."""
    key_id = chance.token()
    text = key_text(key_id, chance.secret())
    new = NewKey(id=key_id, hash=key_hash(text), user=user, role=role("admin"), name="first key of the store")
    return text if await store.add_first_key(SYSTEM, new) else None
