"""From the text of the header to the grant of the key.

A grant that was found is believed for a second. So a busy key costs one lookup a second, and a revoked one ends within
that time. Calls with the same key share a lookup, and only a few keys are looked up at the same time: guesses can't
flood the store.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from typing import NamedTuple, Protocol

from rota.api.problems import Refusal
from rota.api.throttle import Throttle, neighbourhood
from rota.clock import Clock
from rota.errors import InvalidInput, RotaError
from rota.model.access import Grant
from rota.model.access_keys import key_hash, key_id
from rota.model.principal import SYSTEM
from rota.store.base import Store

BELIEVED = 1.0  # seconds
MOST_BELIEVED = 10_000  # grants in memory
LOOKUPS = 16  # at the same time
LAST_USE_EVERY = 60.0  # seconds between two notes of the use of a key
PREFIX = 17  # characters of a wrong key that it is counted under: `rota_` and the id
_CHALLENGE = {"www-authenticate": 'Bearer realm="rota"'}


class KeyRing(Protocol):
    """The store, as far as keys are concerned."""

    async def grant(self, secret: str) -> Grant | None:
        """The rights of an access key; None if it is unknown, expired or revoked."""

    async def used(self, key: str) -> None:
        """Notes that the key of this id was used just now."""

    def now(self) -> int:
        """The time that keys expire by."""


class StoreKeys:
    """The keys in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def grant(self, secret: str) -> Grant | None:
        return await self._store.grant_of(SYSTEM, key_hash(secret))

    async def used(self, key: str) -> None:
        await self._store.touch_keys(SYSTEM, {key: self.now()})

    def now(self) -> int:
        return self._store.now()


class Believed(NamedTuple):
    grant: Grant
    until: float


class Authenticator:
    def __init__(self, keys: KeyRing, clock: Clock) -> None:
        self._keys, self._clock = keys, clock
        self._throttle = Throttle(clock)
        self._believed: OrderedDict[bytes, Believed] = OrderedDict()
        self._running: dict[bytes, asyncio.Task[Grant | None]] = {}
        self._few = asyncio.Semaphore(LOOKUPS)
        self._noted: OrderedDict[str, float] = OrderedDict()  # key ids, and when their use was noted
        self._notes: set[asyncio.Task[None]] = set()

    async def grant(self, header: bytes | None, address: str) -> Grant:
        """Raises a Refusal unless the header has a valid key."""
        if header is None:
            raise Refusal(401, "unauthenticated", "a key is needed: Authorization: Bearer rota_...", _CHALLENGE)
        digest = hashlib.sha256(header).digest()
        believed = self._believed.get(digest)
        if believed is not None and believed.until > self._clock.monotonic():
            grant: Grant | None = believed.grant
        else:
            grant = await self._look_up(digest, *_parts(header))
        if grant is None or (grant.expires_at is not None and grant.expires_at <= self._keys.now()):
            raise self._wrong(_parts(header)[1], address)
        self._note(grant.key)
        return grant

    async def close(self) -> None:
        """Waits for the notes that are being written."""
        if self._notes:
            await asyncio.wait(self._notes, timeout=1.0)

    def forget(self) -> None:
        """The next call with each key looks it up again."""
        self._believed.clear()

    def _wrong(self, secret: str, address: str) -> Refusal:
        wait = self._throttle.failed((f"from {neighbourhood(address)}", f"key {secret[:PREFIX]}"))
        if wait:
            detail = "too many wrong keys: wait before the next"
            return Refusal(429, "too_many_wrong_keys", detail, _CHALLENGE | {"retry-after": str(wait)})
        return Refusal(401, "wrong_key", "the key is wrong, has expired or was revoked", _CHALLENGE)

    async def _look_up(self, digest: bytes, scheme: str, secret: str) -> Grant | None:
        if scheme.lower() != "bearer" or not _can_be_key(secret):
            return None
        task = self._running.get(digest)
        if task is None:
            task = self._running[digest] = asyncio.create_task(self._ask(digest, secret))
            task.add_done_callback(lambda done: self._ended(digest, done))
        return await asyncio.shield(task)  # one caller that goes away must not fail the others

    def _ended(self, digest: bytes, task: asyncio.Task[Grant | None]) -> None:
        self._running.pop(digest, None)
        if not task.cancelled():
            task.exception()  # seen, also if all callers went away

    async def _ask(self, digest: bytes, secret: str) -> Grant | None:
        asked = self._clock.monotonic()
        async with self._few:
            grant = await self._keys.grant(secret)
        self._believed.pop(digest, None)
        if grant is not None:
            self._believed[digest] = Believed(grant, asked + BELIEVED)
            if len(self._believed) > MOST_BELIEVED:
                self._believed.popitem(last=False)
        return grant

    def _note(self, key: str) -> None:
        """Writes the last use down, beside the request and at most once a minute."""
        now = self._clock.monotonic()
        if now - self._noted.get(key, -LAST_USE_EVERY) < LAST_USE_EVERY:
            return
        self._noted.pop(key, None)
        self._noted[key] = now
        if len(self._noted) > MOST_BELIEVED:
            self._noted.popitem(last=False)
        task = asyncio.create_task(self._write_note(key))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def _write_note(self, key: str) -> None:
        try:
            await self._keys.used(key)
        except RotaError:
            self._noted.pop(key, None)  # the next use tries again


def _parts(header: bytes) -> tuple[str, str]:
    scheme, _, secret = header.decode("latin-1").partition(" ")
    return scheme, secret


def _can_be_key(text: str) -> bool:
    """Most wrong texts are told by their form and checksum, without a look into the store."""
    try:
        key_id(text)
    except InvalidInput:
        return False
    return True
