"""Users and access keys, and the pages of the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from rota.errors import InvalidInput, NotAllowed, NotFound
from rota.model.access import Grant, Permission, Role
from rota.model.access_keys import AccessKey, NewKey
from rota.model.principal import Principal
from rota.model.quotas import NO_QUOTAS, Quotas
from rota.model.times import LATEST, Duration, Instant, iso
from rota.store.carriers.quotas import put_bounds, read_quotas
from rota.store.carriers.unit import Columns, Row, Unit
from rota.store.people import AuditEntry, AuditFilter, UserInfo
from rota.store.rows import read_object

_END = (LATEST, 0)


class _Rights(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored JSON."""

    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    extra: tuple[Permission, ...] = ()


_rights = msgspec.json.Decoder(_Rights)


# -- users -----------------------------------------------------------------------------------------------------------
async def put_user(unit: Unit, who: Principal, name: str, quotas: Quotas, new: bool) -> bool:
    text = msgspec.json.encode(quotas).decode()
    await unit.begin()
    if new:
        done = await unit.run("insert_user", name=name, by=who.user, quotas=text, now=unit.now)
    else:
        done = await unit.run("set_quotas", name=name, quotas=text)
    if done:
        await put_bounds(unit, name, quotas)
    return bool(done)


async def remove_user(unit: Unit, who: Principal, name: str) -> int | None:
    await unit.begin()
    admins = await _hold_admins(unit)
    if admins and all(owner == name for owner in admins.values()):
        raise NotAllowed(who.user, f"remove user {name!r}: it has the last admin key; add one for another user first")
    if not await unit.run("delete_user", name=name):
        return None
    await put_bounds(unit, name, NO_QUOTAS)
    return await unit.run("revoke_access_keys_of", owner=name, now=unit.now)


async def users(unit: Unit, who: Principal, names: Sequence[str] | None = None) -> list[UserInfo]:
    rows = await unit.rows("user_rows", sees=None if who.administers else who.user, now=unit.now)
    return [
        UserInfo(name=name, created_at=created_at, created_by=by, keys=keys, quotas=read_quotas(quotas))
        for name, created_at, by, quotas, keys in rows
        if names is None or name in names
    ]


# -- keys ------------------------------------------------------------------------------------------------------------
async def add_key(unit: Unit, who: Principal, new: NewKey) -> AccessKey:
    await unit.begin()
    if not await unit.value("user_exists", name=new.user):
        raise NotFound("user", new.user)
    if not await _insert(unit, who, new):
        raise InvalidInput("key", new.id, "an id and a secret that no other key has")
    (key,) = await _keys(unit, id=new.id)
    return key


async def revoke_key(unit: Unit, who: Principal, key_id: str) -> bool:
    await unit.begin()
    if set(await _hold_admins(unit)) == {key_id}:
        why = "it is the last admin key; rotate it, or add another one first"
        raise NotAllowed(who.user, f"revoke key {key_id}: {why}")
    return bool(await unit.run("revoke_access_key", id=key_id, now=unit.now))


async def rotate_key(
    unit: Unit, who: Principal, key_id: str, new_id: str, new_hash: str, overlap: Duration, expires_at: Instant | None
) -> AccessKey | None:
    await unit.begin()
    if not who.administers and who.key != key_id:
        raise NotAllowed(who.user, f"rotate key {key_id}: it is for admins, and for whoever uses the key itself")
    old = await _keys(unit, id=key_id)
    if not old:
        return None
    added = await unit.run(
        "copy_access_key", id=key_id, new_id=new_id, hash=new_hash, by=who.user, expires_at=expires_at, now=unit.now
    )
    if not added:
        raise InvalidInput("key", new_id, "an id and a secret that no other key has")
    await unit.run("expire_access_key", id=key_id, overlap=overlap, now=unit.now)
    (key,) = await _keys(unit, id=new_id, past=True)
    _check_life(who, old[0], key)
    return key


def _check_life(who: Principal, old: AccessKey, new: AccessKey) -> None:
    """A key that is rotated into one that is over would be the last of its admins; and who rotates the own key gets no
    longer life by it."""
    if new.expires_at is not None and new.expires_at <= new.created_at:
        raise InvalidInput("expires_at", iso(new.expires_at), "a time that is still to come")
    if who.administers or old.expires_at is None or new.expires_at is None:
        return
    if new.expires_at - new.created_at > old.expires_at - old.created_at:
        raise NotAllowed(who.user, f"rotate key {old.id} into one that lives longer: it is for admins")


async def keys(unit: Unit, who: Principal, user: str | None = None, past: bool = False) -> list[AccessKey]:
    return await _keys(unit, owner=user, past=past)


async def grant_of(unit: Unit, key_hash: str) -> Grant | None:
    for key, user, role, text, expires_at in await unit.rows("grant_row", hash=key_hash, now=unit.now):
        with suppress(ValueError, msgspec.MsgspecError):  # a role of a newer rota, or a row written by hand
            rights = msgspec.structs.asdict(_rights.decode(text))
            return Grant(key=key, user=user, role=Role(role), expires_at=expires_at, **rights)
    return None


async def touch_keys(unit: Unit, used: Mapping[str, Instant]) -> None:
    columns: Columns = {"ids": list(used), "ats": list(used.values())}
    await unit.run("touch_access_keys", columns)


async def add_first_key(unit: Unit, who: Principal, new: NewKey) -> bool:
    await unit.begin()
    if await _hold_admins(unit):
        return False
    await unit.run("insert_user", name=new.user, by=who.user, quotas="{}", now=unit.now)
    return bool(await _insert(unit, who, new))


async def _hold_admins(unit: Unit) -> dict[str, str]:
    """The live admin keys and their users. None of them ends before this transaction does."""
    await unit.rows("hold_admins")
    return dict(await unit.rows("live_admin_keys", now=unit.now))


async def _insert(unit: Unit, who: Principal, new: NewKey) -> int:
    rights = msgspec.json.encode(_Rights(new.queues, new.tasks, new.extra)).decode()
    return await unit.run(
        "insert_access_key", id=new.id, hash=new.hash, owner=new.user, name=new.name, role=new.role.value,
        rights=rights, by=who.user, expires_at=new.expires_at, now=unit.now,
    )  # fmt: skip


async def _keys(unit: Unit, *, id: str | None = None, owner: str | None = None, past: bool = False) -> list[AccessKey]:
    rows = await unit.rows("access_key_rows", id=id, owner=owner, past=past, now=unit.now)
    found: list[AccessKey] = []
    for row in rows:
        with suppress(ValueError, msgspec.MsgspecError):
            found.append(_access_key(row))
    return found


def _access_key(row: Row) -> AccessKey:
    key, owner, name, role, rights, created_at, created_by, expires_at, last_used_at, revoked_at, replaces = row
    return AccessKey(
        id=key, user=owner, name=name, role=Role(role), created_at=created_at, created_by=created_by,
        expires_at=expires_at, last_used_at=last_used_at, revoked_at=revoked_at, replaces=replaces,
        **msgspec.structs.asdict(_rights.decode(rights)),
    )  # fmt: skip


# -- audit -----------------------------------------------------------------------------------------------------------
async def audit(unit: Unit, who: Principal, query: AuditFilter) -> list[AuditEntry]:
    if not who.audits and query.user not in (None, who.user):
        return []
    at, seq = query.after or _END
    rows = await unit.rows(
        "audit_rows", actor=query.user if who.audits else who.user, deed=query.deed, since=query.since or 0,
        until=LATEST if query.until is None else query.until, at=at, seq=seq, limit=query.limit,
    )  # fmt: skip
    return [_entry(row) for row in rows]


def _entry(row: Row) -> AuditEntry:
    seq, at, actor, key, deed, subjects, total, data = row
    named = read_object(f'{{"subjects": {subjects}}}').get("subjects", ())
    return AuditEntry(
        seq=seq, at=at, user=actor, key=key, deed=deed, subjects=tuple(map(str, named)), total=total,
        data=read_object(data),
    )  # fmt: skip
