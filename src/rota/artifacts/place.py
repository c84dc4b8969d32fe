"""The contract of an object place: where the bytes of programs and files are kept, by key.

A place knows nothing of programs, jobs and users; the store does. It may be away at any moment. Every call has a time
limit, so none of them hangs: one that gets no answer, or makes no progress, raises `PlaceAway`. All calls raise

- `PlaceAway` if the place gave no answer, or a passing failure. The call may have been carried out; trying it again
  later may help.
- `PlaceRefused` if the place answered that it can't do this: credentials, no such bucket, no space. Someone must act.
- `NoObject` if a call reads a key that is not there.

A place never compares ETags or checksums of its own: what counts is the digest of the bytes that were read
(`publish.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from typing import Literal, NamedTuple

from rota.errors import TooLarge
from rota.model.times import Instant

Method = Literal["GET", "PUT"]
LARGEST = 64 << 30  # bytes of one object. S3 takes 10,000 parts, and parts must stay small to keep memory constant
PAGE = 1000  # keys of one page: no place is asked for more at once
LIMIT = 60.0  # seconds in which a call must get an answer, and a transfer must move its next few MiB


class PlaceAway(Exception):
    """No answer in time, or a failure that may pass."""


class PlaceRefused(Exception):
    """The place answers, and won't do this until someone acts: credentials, rights, no such bucket or folder, full."""


class NoObject(Exception):
    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"there is no object {key}")


class WrongSize(Exception):
    """The content that was given is not as long as was said; nothing of it is kept."""

    def __init__(self, key: str, said: int, found: str) -> None:
        self.key, self.said = key, said
        super().__init__(f"{key}: {said} bytes were expected, {found} came")


class StoredObject(NamedTuple):
    key: str
    size: int
    at: Instant  # when it was put, by the clock of the place


class PlaceState(NamedTuple):
    place: str  # its address without what is secret
    exclusive: bool  # `put_new` is exact, even if two processes call it at once

    @property
    def warning(self) -> str:
        """What someone should know; "": nothing."""
        if self.exclusive:
            return ""
        return f"{self.place} does not refuse to replace objects (If-None-Match): two writers of one key may both win"


class ObjectPlace(ABC):
    """Belongs to no event loop; keys are checked by `keys.check_key`. No key may be the folder of another one."""

    name: str  # its address without what is secret

    @abstractmethod
    async def probe(self) -> PlaceState:
        """Writes, reads and deletes a small object, and says what this place can do. It comes before all other calls:
        a folder is created by it."""

    @abstractmethod
    async def put(self, key: str, content: AsyncIterable[bytes], size: int | None = None) -> int:
        """Keeps content under a key, in place of what was there; returns its size. It needs the same memory for any
        size. `size`: what the content must have, or `WrongSize` is raised; None: unknown. What the content raises is
        raised. Until all of it was kept, readers see the object that was there before, or none. A call that is
        cancelled or fails leaves nothing visible; if that happens in its last step, all of the content may be kept."""

    @abstractmethod
    async def put_new(self, key: str, content: bytes) -> bool:
        """Keeps a small object if there is none under its key; returns whether it did. Exact if the state says
        `exclusive`. It is never tried again by itself, so False means that another call came first."""

    @abstractmethod
    def get(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes from `start` to before `end`, in pieces. What is beyond the end of the object is left out. If all
        bytes can't be given it raises, so an iteration that ends was complete. Who leaves it early closes it
        (`contextlib.aclosing`)."""

    @abstractmethod
    async def head(self, key: str) -> StoredObject: ...

    @abstractmethod
    async def delete(self, keys: Iterable[str]) -> None:
        """Any number of keys; those that are not there are fine."""

    @abstractmethod
    async def page(self, prefix: str, after: str = "", most: int = PAGE) -> list[StoredObject]:
        """Objects below a folder of keys (`staging/`; "" for all) that come after the key `after`. An empty page is the
        end; a page may be shorter than `most` before it. Each place has an order of its own, in which every object
        that stays comes once. In a folder without folders it is that of the keys."""

    @abstractmethod
    async def copy(self, source: str, target: str) -> None:
        """Within the place, without moving the bytes through this process where the place can do that. The target has
        a time of its own."""

    @abstractmethod
    async def sign(self, method: Method, key: str, life: int, size: int | None = None) -> str:
        """A URL with which anyone may do this with this key, once or often, for `life` seconds. `size`: what a PUT may
        have at most. S3 does not enforce that: what was uploaded counts only after it was read and hashed."""

    @abstractmethod
    async def sweep(self) -> int:
        """Removes what interrupted puts left behind more than a day ago, and is visible to nobody; returns how much
        that was. S3 does it by itself, if the bucket has a rule for incomplete multipart uploads."""

    async def move(self, source: str, target: str) -> None:
        """A copy whose source is deleted. Both may be there after an interruption, never none."""
        await self.copy(source, target)
        await self.delete([source])

    async def every(self, prefix: str) -> AsyncIterator[StoredObject]:
        """All objects below a folder of keys, page by page."""
        page = await self.page(prefix)
        while page:
            for found in page:
                yield found
            page = await self.page(prefix, page[-1].key)


async def counted(key: str, content: AsyncIterable[bytes], size: int | None) -> AsyncGenerator[bytes, None]:
    """The content without empty pieces. It fails as soon as it is longer than it may be, and at its end if it is
    shorter."""
    most = LARGEST if size is None else min(size, LARGEST)
    count = 0
    async for piece in content:
        count += len(piece)
        if count > most:
            raise TooLarge(key, count, LARGEST) if most == LARGEST else WrongSize(key, most, f"{count} or more")
        if piece:
            yield piece
    if size is not None and count != size:
        raise WrongSize(key, size, str(count))
