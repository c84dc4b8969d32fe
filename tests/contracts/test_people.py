"""Users and access keys: added, looked up, rotated, revoked; the last admin key stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rota.errors import InvalidInput, NotAllowed, NotFound
from rota.model.access import Grant, Permission, Role
from rota.model.access_keys import AccessKey, KeyState, NewKey, key_hash, key_text
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import NO_QUOTAS, quotas
from rota.model.times import DAY, HOUR, SECOND
from rota.store.values import Retention
from tests.contracts.world import ALICE, OLGA, World

ADA = Principal("ada", operator=True, admin=True, key="a1")


def new_key(world: World, user: str = "ann", role: Role = Role.SUBMITTER, **given: Any) -> NewKey:
    key_id = world.chance.token()
    return NewKey(id=key_id, hash=key_hash(key_text(key_id, world.chance.secret())), user=user, role=role, **given)


async def add(world: World, user: str = "ann", role: Role = Role.SUBMITTER, **given: Any) -> NewKey:
    await world.store.put_user(LOCAL, user, NO_QUOTAS, new=True)
    new = new_key(world, user, role, **given)
    await world.store.add_key(LOCAL, new)
    return new


async def grant(world: World, key: NewKey) -> Grant | None:
    return await world.store.grant_of(SYSTEM, key.hash)


async def listed(world: World, **given: Any) -> dict[str, AccessKey]:
    return {key.id: key for key in await world.store.keys(LOCAL, **given)}


# -- users ------------------------------------------------------------------------------------------------------------
async def test_users_are_added_once_changed_and_removed(world: World) -> None:
    bounds = quotas("submissions=600/1m,waiting=10")
    assert await world.store.put_user(LOCAL, "ann", NO_QUOTAS, new=True)
    assert not await world.store.put_user(LOCAL, "ann", bounds, new=True)
    assert not await world.store.put_user(LOCAL, "bea", bounds, new=False)
    (ann,) = await world.store.users(LOCAL)
    assert (ann.name, ann.created_by, ann.quotas, ann.keys) == ("ann", "local", NO_QUOTAS, 0)
    assert ann.created_at == world.clock.now()
    assert await world.store.put_user(LOCAL, "ann", bounds, new=False)
    await add(world)
    (ann,) = await world.store.users(LOCAL, ["ann", "bea"])
    assert (ann.quotas, ann.keys) == (bounds, 1)
    assert await world.store.remove_user(LOCAL, "ann") == 1
    assert await world.store.remove_user(LOCAL, "ann") is None
    assert await world.store.users(LOCAL) == []


async def test_a_removed_user_loses_the_keys_and_keeps_the_jobs(world: World) -> None:
    key = await add(world)
    job = await world.one(Principal("ann", key=key.id))
    await world.store.remove_user(LOCAL, "ann")
    assert await grant(world, key) is None
    assert (await world.info(job)).owner == "ann"
    await world.store.put_user(LOCAL, "ann", NO_QUOTAS, new=True)
    assert await grant(world, key) is None, "a user of the same name gets no old key"


async def test_users_see_only_themselves(world: World) -> None:
    for name in ("alice", "ann"):
        await world.store.put_user(LOCAL, name, NO_QUOTAS, new=True)
    assert [user.name for user in await world.store.users(ALICE)] == ["alice"]
    assert await world.store.users(ALICE, ["ann"]) == []
    assert [user.name for user in await world.store.users(ADA)] == ["alice", "ann"]


# -- keys -------------------------------------------------------------------------------------------------------------
async def test_a_key_grants_what_it_was_given(world: World) -> None:
    until = world.clock.now() + DAY
    key = await add(
        world, queues=("mail*",), tasks=("a", "b.*"), extra=(Permission.COMMANDS,), expires_at=until, name="laptop"
    )
    assert await grant(world, key) == Grant(
        key=key.id, user="ann", role=Role.SUBMITTER, queues=("mail*",), tasks=("a", "b.*"),
        extra=(Permission.COMMANDS,), expires_at=until,
    )  # fmt: skip
    shown = (await listed(world))[key.id]
    assert (shown.name, shown.created_by, shown.last_used_at, shown.expires_at) == ("laptop", "local", None, until)
    assert await world.store.grant_of(SYSTEM, key_hash("rota_x")) is None


async def test_only_the_hash_of_a_key_is_kept(world: World) -> None:
    text = key_text("0123456789ab", world.chance.secret())
    await world.store.put_user(LOCAL, "ann", NO_QUOTAS, new=True)
    await world.store.add_key(LOCAL, NewKey(id="0123456789ab", hash=key_hash(text), user="ann", role=Role.VIEWER))
    contents = repr(world.backend.contents())
    assert key_hash(text) in contents
    assert text.rpartition("_")[2] not in contents


async def test_keys_need_a_user_and_an_id_of_their_own(world: World) -> None:
    with pytest.raises(NotFound, match="no user 'ann'"):
        await world.store.add_key(LOCAL, new_key(world))
    key = await add(world)
    async with world.unchanged():
        with pytest.raises(InvalidInput, match="no other key has"):
            await world.store.add_key(LOCAL, key)


async def test_a_key_ends_when_it_expires(world: World) -> None:
    key = await add(world, expires_at=world.clock.now() + HOUR)
    world.clock.advance(3599)
    assert await grant(world, key)
    world.clock.advance(1)
    assert await grant(world, key) is None
    assert await listed(world) == {}
    assert (await listed(world, past=True))[key.id].state(world.clock.now()) is KeyState.EXPIRED


async def test_a_key_is_revoked_at_once_and_once(world: World) -> None:
    key = await add(world)
    assert await world.store.revoke_key(LOCAL, key.id)
    assert await grant(world, key) is None
    assert not await world.store.revoke_key(LOCAL, key.id)
    assert not await world.store.revoke_key(LOCAL, "nobody")
    assert await listed(world) == {}
    assert (await listed(world, past=True, user="ann"))[key.id].state(world.clock.now()) is KeyState.REVOKED


async def test_a_rotated_key_has_the_same_rights_and_both_live_for_the_overlap(world: World) -> None:
    key = await add(world, queues=("q",), extra=(Permission.CALLS,), expires_at=world.clock.now() + 90 * DAY)
    world.clock.advance(80 * DAY / SECOND)
    new = new_key(world)
    rotated = await world.store.rotate_key(LOCAL, key.id, new.id, new.hash, DAY, None)
    assert rotated is not None
    assert (rotated.replaces, rotated.queues, rotated.extra) == (key.id, ("q",), (Permission.CALLS,))
    assert rotated.expires_at == world.clock.now() + 90 * DAY, "it lives as long as the old one was to live"
    assert await grant(world, key)
    assert await grant(world, new)
    world.clock.advance(DAY / SECOND)
    assert await grant(world, key) is None
    assert await grant(world, new)
    again = new_key(world)
    assert await world.store.rotate_key(LOCAL, key.id, again.id, again.hash, DAY, None) is None, "it lives no more"


async def test_an_overlap_does_not_lengthen_a_life(world: World) -> None:
    key, new = await add(world, expires_at=world.clock.now() + HOUR), new_key(world)
    await world.store.rotate_key(LOCAL, key.id, new.id, new.hash, DAY, world.clock.now() + 2 * DAY)
    assert {one.id: one.expires_at for one in await world.store.keys(LOCAL)} == {
        key.id: world.clock.now() + HOUR,
        new.id: world.clock.now() + 2 * DAY,
    }


async def test_a_key_rotates_itself_and_no_other(world: World) -> None:
    key, new = await add(world), new_key(world)
    with pytest.raises(NotAllowed, match="rotate key"):
        await world.store.rotate_key(Principal("ann", key="other"), key.id, new.id, new.hash, 0, None)
    assert await world.store.rotate_key(Principal("ann", key=key.id), key.id, new.id, new.hash, 0, None)
    assert await grant(world, key) is None


async def test_a_key_that_rotates_itself_lives_no_longer_than_before(world: World) -> None:
    key, new = await add(world, expires_at=world.clock.now() + 2 * DAY), new_key(world)
    ann = Principal("ann", key=key.id)
    async with world.unchanged():
        with pytest.raises(NotAllowed, match="lives longer"):
            await world.store.rotate_key(ann, key.id, new.id, new.hash, DAY, world.clock.now() + 3 * DAY)
    assert await world.store.rotate_key(ann, key.id, new.id, new.hash, DAY, world.clock.now() + DAY)


async def test_no_key_is_rotated_into_one_that_is_over(world: World) -> None:
    key, new = await add(world, role=Role.ADMIN), new_key(world)
    with pytest.raises(InvalidInput, match="expires_at"):
        await world.store.rotate_key(LOCAL, key.id, new.id, new.hash, 0, world.clock.now())
    assert await grant(world, key)


async def test_the_last_use_is_recorded_and_never_goes_back(world: World) -> None:
    one, other = await add(world), await add(world)
    await world.store.touch_keys(SYSTEM, {one.id: 5, other.id: 7, "nobody": 9})
    await world.store.touch_keys(SYSTEM, {one.id: 6, other.id: 3})
    assert {key.id: key.last_used_at for key in await world.store.keys(LOCAL)} == {one.id: 6, other.id: 7}


# -- admins -----------------------------------------------------------------------------------------------------------
async def test_the_last_admin_key_is_neither_revoked_nor_removed(world: World) -> None:
    key = await add(world, "root", Role.ADMIN)
    await add(world, "ann", Role.ADMIN, expires_at=world.clock.now() + HOUR)
    world.clock.advance(HOUR / SECOND)
    async with world.unchanged():
        with pytest.raises(NotAllowed, match="last admin key; rotate it, or add another"):
            await world.store.revoke_key(LOCAL, key.id)
        with pytest.raises(NotAllowed, match="remove user 'root': it has the last admin key"):
            await world.store.remove_user(LOCAL, "root")
    other = await add(world, "bea", Role.ADMIN)
    assert await world.store.revoke_key(LOCAL, key.id)
    assert await world.store.remove_user(LOCAL, "root") == 0
    with pytest.raises(NotAllowed):
        await world.store.revoke_key(LOCAL, other.id)


async def test_the_first_key_is_added_once_by_whoever_comes_first(world: World) -> None:
    keys = [new_key(world, "local", Role.ADMIN) for _ in range(4)]
    added = await asyncio.gather(*(world.store.add_first_key(SYSTEM, key) for key in keys))
    assert sorted(added) == [False, False, False, True]
    assert [bool(await grant(world, key)) for key in keys] == added
    assert [user.name for user in await world.store.users(LOCAL)] == ["local"]


async def test_people_are_for_admins(world: World) -> None:
    for who in (ALICE, OLGA):
        async with world.unchanged():
            for call in (
                world.store.put_user(who, "ann", NO_QUOTAS, new=True), world.store.remove_user(who, "ann"),
                world.store.add_key(who, new_key(world)), world.store.revoke_key(who, "k"), world.store.keys(who),
            ):  # fmt: skip
                with pytest.raises(NotAllowed, match="it is for admins"):
                    await call


async def test_ended_keys_are_forgotten_with_the_audit(world: World) -> None:
    live, revoked = await add(world), await add(world)
    expired = await add(world, expires_at=world.clock.now() + 1)
    await world.store.revoke_key(LOCAL, revoked.id)
    world.clock.advance(3 * DAY / SECOND)
    await world.store.prune(SYSTEM, Retention(DAY, DAY, DAY, DAY, audit=4 * DAY), 100)
    assert set(await listed(world, past=True)) == {live.id, revoked.id, expired.id}
    await world.store.prune(SYSTEM, Retention(DAY, DAY, DAY, DAY, audit=2 * DAY), 100)
    assert set(await listed(world, past=True)) == {live.id}
