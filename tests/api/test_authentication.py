"""Keys: how long a grant is believed, what wrong ones cost, and what is noted."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from rota.api.authentication import BELIEVED, LAST_USE_EVERY, LOOKUPS, Authenticator, StoreKeys
from rota.api.problems import Refusal
from rota.errors import StoreUnavailable
from rota.model.access import Grant, Role
from rota.model.access_keys import NewKey, key_hash, key_text
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from tests.api.caller import Caller, Keys, secret
from tests.contracts.world import World

ADMIN = secret("admin")


@pytest.fixture
def caller(world: World) -> Caller:
    return Caller(world)


async def ask(caller: Caller, key: str | None = ADMIN, address: str = "192.0.2.1", scheme: str = "Bearer") -> int:
    try:
        await caller.authenticator.grant(f"{scheme} {key}".encode() if key else None, address)
    except Refusal as refusal:
        return refusal.status
    return 200


async def test_a_grant_is_believed_for_a_moment(world: World, caller: Caller) -> None:
    assert [await ask(caller) for _ in range(3)] == [200, 200, 200]
    assert caller.keys.lookups == 1
    del caller.keys.grants[ADMIN]
    assert await ask(caller) == 200
    world.clock.advance(BELIEVED)
    assert await ask(caller) == 401


async def test_a_grant_ends_at_its_time_although_it_is_believed(world: World, caller: Caller) -> None:
    end = world.store.now() + SECOND // 2
    caller.keys.grants[ADMIN] = msgspec.structs.replace(caller.keys.grants[ADMIN], expires_at=end)
    assert await ask(caller) == 200
    world.clock.advance(0.5)
    assert await ask(caller) == 401
    assert caller.keys.lookups == 1


async def test_forgetting_ends_it_at_once(caller: Caller) -> None:
    await ask(caller)
    del caller.keys.grants[ADMIN]
    caller.authenticator.forget()
    assert await ask(caller) == 401


@pytest.mark.parametrize(
    "key",
    ["", "rota_", "rota_short", "other_" + "x" * 40, ADMIN + " ", ADMIN + "\n", ADMIN[:-1] + "x", "rota_" + "x" * 999],
)
async def test_what_is_no_key_is_not_looked_up(caller: Caller, key: str) -> None:
    assert await ask(caller, key) == 401
    assert caller.keys.lookups == 0


async def test_other_schemes_are_refused(caller: Caller) -> None:
    assert await ask(caller, scheme="Basic") == 401
    assert await ask(caller, scheme="bearer") == 200
    assert await ask(caller, key=None) == 401


async def test_wrong_keys_are_slowed_down_and_right_ones_are_not(world: World, caller: Caller) -> None:
    wrong = [await ask(caller, secret(f"wrong {n}")) for n in range(20)]
    assert wrong == [401] * 10 + [429] * 10
    assert await ask(caller) == 200
    assert await ask(caller, secret("admin", "bob")) == 200
    assert await ask(caller, secret("other"), address="192.0.2.2") == 401
    world.clock.advance(600)
    assert await ask(caller, secret("other")) == 401


async def test_guesses_at_one_key_are_slowed_down_from_all_addresses(caller: Caller) -> None:
    answers = [await ask(caller, key_text("0123456789ab", bytes([n] * 32)), address=f"192.0.2.{n}") for n in range(12)]
    assert answers == [401] * 10 + [429] * 2


async def test_calls_at_once_share_a_lookup_and_keys_wait_for_their_turn(world: World, caller: Caller) -> None:
    class Slow(Keys):
        most = now_ = 0

        async def grant(self, given: str) -> Grant | None:
            self.now_ += 1
            self.most = max(self.most, self.now_)
            await asyncio.sleep(0)
            self.now_ -= 1
            return await super().grant(given)

    caller.authenticator._keys = slow = Slow(world.store)
    await asyncio.gather(*(ask(caller) for _ in range(50)))
    assert slow.lookups == 1
    await asyncio.gather(*(ask(caller, secret(f"wrong {n}")) for n in range(100)))
    assert slow.most == LOOKUPS


async def test_a_store_that_is_away_is_tried_again(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(given: str) -> Grant | None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(caller.keys, "grant", away)
        with pytest.raises(StoreUnavailable):
            await ask(caller)
    assert await ask(caller) == 200


async def test_a_use_is_noted_once_a_minute(world: World, caller: Caller) -> None:
    for _ in range(3):
        await ask(caller)
    await asyncio.sleep(0)
    assert caller.keys.noted == ["ann-admin"]
    world.clock.advance(LAST_USE_EVERY)
    await ask(caller)
    await asyncio.sleep(0)
    assert caller.keys.noted == ["ann-admin"] * 2


async def test_keys_of_the_store(world: World) -> None:
    """From a key in the store to its grant; its last use is written, and a revoked one is refused within a second."""
    text = key_text("0123456789ab", bytes(32))
    new = NewKey(id="0123456789ab", hash=key_hash(text), user="ann", role=Role.ADMIN)
    assert await world.store.add_first_key(SYSTEM, new)
    keys = Authenticator(StoreKeys(world.store), world.clock)
    header = f"Bearer {text}".encode()
    grant = await keys.grant(header, "192.0.2.1")
    assert (grant.user, grant.role, grant.key) == ("ann", Role.ADMIN, "0123456789ab")
    await keys.close()
    (key,) = await world.store.keys(grant.principal)
    assert key.last_used_at == world.store.now()
    other = msgspec.structs.replace(new, id="ffffffffffff", hash=key_hash("another"))
    await world.store.add_key(grant.principal, other)
    assert await world.store.revoke_key(grant.principal, "0123456789ab")
    world.clock.advance(BELIEVED)
    with pytest.raises(Refusal, match="revoked"):
        await keys.grant(header, "192.0.2.1")
