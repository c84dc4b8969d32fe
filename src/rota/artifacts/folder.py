"""An object place in a folder of files, for one machine or for several that share a file system.

Each call of the file system runs in a thread of its own: a disk or network drive that hangs holds up neither the event
loop, other calls nor the end of the process. Several processes may use a folder at once.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from rota.artifacts import folder_files as files
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
from rota.artifacts.signing import UrlSigner
from rota.clock import Chance, Clock
from rota.daemon_thread import in_daemon_thread
from rota.model.times import DAY

T = TypeVar("T")
PIECE = 1 << 20
CLOSING = 1.0  # seconds
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = {
    errno.EACCES: "its files can't be read or written by this user",
    errno.EPERM: "the file system does not allow that",
    errno.EROFS: "it is mounted read-only",
    errno.EFBIG: "the file is larger than this process, or the file system, may write",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EISDIR: "a folder stands where a file is needed",
    errno.ELOOP: "its links lead in a circle",
    errno.EOPNOTSUPP: "the file system can't do that",
}


class FolderPlace(ObjectPlace):
    """`signer` and `base`: for signed URLs, and the address that the API serves them below; None: there are none."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        chance: Chance,
        *,
        signer: UrlSigner | None = None,
        base: str = "",
        limit: float = LIMIT,
    ) -> None:
        self._root = path.absolute()
        self.name = f"file:{path}"
        self._clock, self._chance, self._signer, self._base, self._limit = clock, chance, signer, base, limit

    async def probe(self) -> PlaceState:
        await self._do(lambda: files.prepare(self._root))
        await self.sweep()
        key = f"probe/{self._chance.token()}"
        exclusive = await self._do(lambda: files.can_link(self._root, self._chance.token()))
        try:
            await self.put_new(key, b"1")
            if [piece async for piece in self.get(key)] != [b"1"]:
                raise PlaceRefused(f"{self.name}: it does not give back what was written")
        finally:
            await self.delete([key])
        return PlaceState(self.name, exclusive)

    async def put(self, key: str, content: AsyncIterable[bytes], size: int | None = None) -> int:
        check_key(key)
        count = 0
        async with aclosing(counted(key, content, size)) as pieces, self._draft() as draft:
            async for piece in pieces:
                await self._do(lambda piece=piece: draft.write(piece))  # type: ignore[misc]
                count += len(piece)
            await self._do(lambda: draft.keep(key))
        return count

    async def put_new(self, key: str, content: bytes) -> bool:
        check_key(key)
        async with self._draft() as draft:
            await self._do(lambda: draft.write(content))
            return await self._do(lambda: draft.keep(key, new=True))

    async def get(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        check_key(key)
        reader = files.Reader(self._root, key, start, end)
        try:
            left = await self._do(reader.open, key)
            while left:
                piece = await self._do(lambda: reader.read(PIECE))
                if not piece:
                    raise PlaceAway(f"{self.name}: {key} ended {left} bytes early")
                left -= len(piece)
                yield piece
        finally:
            await self._end(reader.close)

    async def head(self, key: str) -> StoredObject:
        check_key(key)
        return StoredObject(*await self._do(lambda: files.found(self._root, key), key))

    async def delete(self, keys: Iterable[str]) -> None:
        checked = [check_key(key) for key in keys]
        for start in range(0, len(checked), PAGE):
            await self._do(lambda start=start: files.delete(self._root, checked[start : start + PAGE]))  # type: ignore[misc]

    async def page(self, prefix: str, after: str = "", most: int = PAGE) -> list[StoredObject]:
        check_folder(prefix)
        found = await self._do(lambda: files.page(self._root, prefix, after, min(most, PAGE)))
        return [StoredObject(*one) for one in found]

    async def copy(self, source: str, target: str) -> None:
        """Through this process, piece by piece: links would share the time of their file."""
        check_key(target)
        size = (await self.head(source)).size
        async with aclosing(self.get(source)) as content:
            await self.put(target, content, size)

    async def sign(self, method: Method, key: str, life: int, size: int | None = None) -> str:
        if self._signer is None:
            raise PlaceRefused(f"{self.name}: the URLs of a folder are signed and served by the API")
        return f"{self._base}/{check_key(key)}?{self._signer.sign(method, key, life, self._clock.now(), size)}"

    async def sweep(self) -> int:
        return await self._do(lambda: files.sweep(self._root, self._clock.now() - DAY))

    @asynccontextmanager
    async def _draft(self) -> AsyncIterator[files.Draft]:
        name = self._chance.secret().hex()[:32]
        draft = files.Draft(self._root, name)
        try:
            await self._do(draft.open)
            yield draft
        finally:
            draft.give_up()
            await self._end(draft.close)

    async def _do(self, call: Callable[[], T], key: str = "") -> T:
        """In a thread, within the time limit. `key`: of an object that the call needs."""
        try:
            async with asyncio.timeout(self._limit):
                return await in_daemon_thread(call, "rota-objects")
        except TimeoutError:
            raise PlaceAway(f"{self.name}: the file system gave no answer within {self._limit:g}s") from None
        except files.NotPrepared:
            raise PlaceRefused(self._unprepared) from None
        except FileNotFoundError:
            if not await in_daemon_thread(lambda: files.prepared(self._root), "rota-objects"):
                raise PlaceRefused(self._unprepared) from None
            raise NoObject(key) if key else PlaceAway(f"{self.name}: a file was removed meanwhile") from None
        except OSError as error:
            if key and isinstance(error, NotADirectoryError):
                raise NoObject(key) from None
            raise self._problem(error) from None

    @property
    def _unprepared(self) -> str:
        return f"{self.name}: no folder of objects is there; was a disk unmounted?"

    def _problem(self, error: OSError) -> PlaceAway | PlaceRefused:
        if error.errno in _FULL:
            return PlaceRefused(f"{self.name}: it is full")
        if error.errno in _REFUSED:
            return PlaceRefused(f"{self.name}: {_REFUSED[error.errno]}")
        return PlaceAway(f"{self.name}: {error.strerror or error}")

    async def _end(self, call: Callable[[], object]) -> None:
        """Waits a moment at most, for this call may be being cancelled; the thread ends it even so."""
        with suppress(OSError):  # of time too
            async with asyncio.timeout(min(CLOSING, self._limit)):
                await in_daemon_thread(call, "rota-objects")
