"""An object place in a bucket of an S3-compatible store, with obstore.

obstore runs its requests in threads of its own, which don't survive a fork: a forked child can't use a place of its
parent, and is told so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from rota.artifacts.keys import check_folder, check_key
from rota.artifacts.place import (
    LIMIT,
    PAGE,
    Method,
    NoObject,
    ObjectPlace,
    PlaceAway,
    PlaceRefused,
    PlaceState,
    StoredObject,
    counted,
)
from rota.artifacts.s3_problems import AlreadyThere, BeyondEnd, problem
from rota.artifacts.s3_streams import Feed, Stream, gathered
from rota.artifacts.signing import check_life
from rota.clock import Chance
from rota.objects_address import S3Address

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import RetryConfig, S3Credential

PIECE = 1 << 20
PART = 8 << 20  # of a multipart upload: S3 wants 5 MiB at least
AT_ONCE = 3  # parts under way, so that an upload needs some 40 MiB whatever its size
COPIED_WHOLE = 5 << 30  # S3 copies no larger object in one request
COPYING = 64 << 20  # bytes that a store copies in a second, at least


class S3Place(ObjectPlace):
    def __init__(self, address: S3Address, chance: Chance, *, limit: float = LIMIT) -> None:
        self.name, self._chance, self._limit = address.place, chance, limit
        self._process = os.getpid()
        self._exclusive = True
        self._store = _store(address, limit, tries=3)
        self._once = _store(address, limit, tries=0)

    async def probe(self) -> PlaceState:
        key = f"probe/{self._chance.token()}"
        try:
            await self.put(key, _only(b"1"))
            self._exclusive = await self._refuses_second(key)
            if b"".join([piece async for piece in self.get(key)]) not in (b"1", b"2"):
                raise PlaceRefused(f"{self.name}: it does not give back what was written")
        except Exception:
            with suppress(PlaceAway, PlaceRefused):  # what was wrong before is what counts
                await self.delete([key])
            raise
        await self.delete([key])
        return PlaceState(self.name, self._exclusive)

    async def _refuses_second(self, key: str) -> bool:
        try:
            async with self._step():
                await obstore.put_async(self._once, key, b"2", mode="create")
        except AlreadyThere:
            return True
        except PlaceRefused:  # it does not know If-None-Match
            return False
        return False

    async def put(self, key: str, content: AsyncIterable[bytes], size: int | None = None) -> int:
        check_key(key)
        async with aclosing(counted(key, content, size)) as pieces:
            first = await gathered(pieces, PART)
            if len(first) < PART:
                async with self._step():
                    await obstore.put_async(self._store, key, first, use_multipart=False)
                return len(first)
            return await self._put_parts(key, first, pieces)

    async def _put_parts(self, key: str, first: bytes, rest: AsyncIterator[bytes]) -> int:
        """What was uploaded becomes visible when the last part was. An upload that is not finished stays hidden in the
        bucket: obstore can't end it, a rule of the bucket does."""
        feed, count = Feed(), 0
        upload = asyncio.ensure_future(
            obstore.put_async(self._store, key, feed, use_multipart=True, chunk_size=PART, max_concurrency=AT_ONCE)
        )
        try:
            piece: bytes | None = first
            while piece is not None:
                async with self._step():
                    await feed.give(piece, upload)
                count += len(piece)
                piece = await anext(rest, None)
            async with self._step():
                await feed.give(None, upload)
                await upload
        finally:
            if not upload.cancel() and not upload.cancelled():
                upload.exception()  # it is known, or less than what the content raised
            await feed.close()
        return count

    async def put_new(self, key: str, content: bytes) -> bool:
        check_key(key)
        if not self._exclusive:
            with suppress(NoObject):
                await self.head(key)
                return False
            await self.put(key, _only(content))
            return True
        try:
            async with self._step():
                await obstore.put_async(self._once, key, content, mode="create")
        except AlreadyThere:
            return False
        return True

    async def get(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        check_key(key)
        options: GetOptions = {}
        if start or end is not None:
            options["range"] = {"offset": start} if end is None else (start, max(end, start + 1))
        try:
            async with self._step(key):
                answer = await obstore.get_async(self._store, key, options=options)
        except BeyondEnd:
            return
        if end is not None and end <= start:
            return
        stream = Stream(answer.stream(min_chunk_size=PIECE))
        left = answer.range[1] - answer.range[0]
        while left:
            async with self._step(key):
                piece = await stream.next()
            if piece is None or len(piece) > left:
                raise PlaceAway(f"{self.name}: {key} ended {left} bytes early")
            left -= len(piece)
            yield bytes(piece)

    async def head(self, key: str) -> StoredObject:
        check_key(key)
        try:
            async with self._step(key):
                return _stored(await obstore.head_async(self._store, key), key)
        except NoObject:
            # An answer without a body does not say whether it is the object or the bucket that is not there.
            async with self._step(key):
                return _stored((await obstore.get_async(self._store, key)).meta, key)

    async def delete(self, keys: Iterable[str]) -> None:
        checked = [check_key(key) for key in keys]
        for start in range(0, len(checked), PAGE):
            async with self._step():
                await obstore.delete_async(self._store, checked[start : start + PAGE])

    async def page(self, prefix: str, after: str = "", most: int = PAGE) -> list[StoredObject]:
        check_folder(prefix)
        stream = Stream(obstore.list(self._store, prefix or None, offset=after or None, chunk_size=min(most, PAGE)))
        async with self._step():
            return [_stored(one, one["path"]) for one in await stream.next() or ()]

    async def copy(self, source: str, target: str) -> None:
        check_key(target)
        size = (await self.head(source)).size
        if size <= COPIED_WHOLE:
            async with self._step(source, self._limit + size / COPYING):
                await obstore.copy_async(self._store, source, target)
        else:
            async with aclosing(self.get(source)) as content:
                await self.put(target, content, size)

    async def sign(self, method: Method, key: str, life: int, size: int | None = None) -> str:
        lasting = timedelta(seconds=check_life(life))
        async with self._step():
            return await obstore.sign_async(self._store, method, check_key(key), lasting)

    async def sweep(self) -> int:
        return 0

    @asynccontextmanager
    async def _step(self, key: str = "", seconds: float | None = None) -> AsyncIterator[None]:
        """One request, or one piece of an answer, within the time limit and with the errors of the contract."""
        if os.getpid() != self._process:
            raise PlaceRefused(f"{self.name}: this process was forked; open the object place in it anew")
        seconds = self._limit if seconds is None else seconds
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise PlaceAway(f"{self.name}: no answer within {seconds:g}s") from None
        except (BaseError, FileNotFoundError) as error:
            raise problem(self.name, error, key) from None


def _store(address: S3Address, limit: float, tries: int) -> S3Store:
    """obstore looks into the environment for all that is not said here."""
    retry: RetryConfig = {
        "max_retries": tries,
        "retry_timeout": timedelta(seconds=limit),
        "backoff": {"init_backoff": timedelta(seconds=0.05), "max_backoff": timedelta(seconds=1)},
    }
    login = address.login
    return S3Store(
        address.bucket,
        prefix=address.prefix or None,
        config={
            "endpoint": address.endpoint,
            "aws_endpoint_url_s3": address.endpoint,
            "region": address.region,
            "virtual_hosted_style_request": False,
            "conditional_put": "etag",
        },
        client_options={
            "allow_http": address.plain,
            "connect_timeout": timedelta(seconds=min(limit, 10)),
            "read_timeout": timedelta(seconds=limit),
            "timeout": "1day",  # of a whole answer, however long: what counts is that it goes on
        },
        retry_config=retry,
        credential_provider=None if login is None else _Given(*login),
    )


class _Given:
    """Credentials from the address. With them the environment is not asked: its session token may belong to others."""

    def __init__(self, key: str, secret: str) -> None:
        self._credential: S3Credential = {"access_key_id": key, "secret_access_key": secret, "expires_at": None}

    def __call__(self) -> S3Credential:
        return self._credential


def _stored(found: ObjectMeta, key: str) -> StoredObject:
    """Not every version of obstore takes the prefix away from all paths, so the key is given."""
    return StoredObject(key, found["size"], _instant(found["last_modified"]))


def _instant(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


async def _only(content: bytes) -> AsyncIterator[bytes]:
    yield content
