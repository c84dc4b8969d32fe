"""Uploads become publications: staged parts are joined, counted and hashed on their way into the final key.

Only the server publishes. A signed URL of S3 limits neither size nor content, and it can be used again: so nothing that
was said of a part counts, only the bytes that are read here. They are read once, and what was hashed is what is
written: a part that is replaced meanwhile changes the digest, and nothing is published.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from rota.artifacts.keys import check_digest, object_key, part_number, part_size, staging_of
from rota.artifacts.place import ObjectPlace, StoredObject

HASHED_HERE = 1 << 16  # bytes that are hashed in the event loop; more go to a thread, and Python lets the loop go on


class ContentMismatch(Exception):
    """What was uploaded is not what was announced; nothing of it is published."""

    def __init__(self, what: str, announced: object, found: object) -> None:
        self.what, self.announced, self.found = what, announced, found
        super().__init__(f"the {what} of the upload is {found}, {announced} was announced: upload it again")


class Publication(NamedTuple):
    key: str
    digest: str
    size: int


async def publish(place: ObjectPlace, parts: Sequence[str], digest: str, size: int, token: str) -> Publication:
    """Joins staged parts, in the order of `parts`, under the digest that they were announced with. Raises
    `ContentMismatch` if their size is another one (before more than that was read) or their digest, and `NoObject` if
    a part is missing. The staged parts stay: they go after the publication was recorded, with `discard`."""
    key = object_key(check_digest(digest), token)
    part_size(size)  # refuses what is too large
    found = [await place.head(part) for part in parts]
    if (total := sum(part.size for part in found)) != size:
        raise ContentMismatch("size", size, total)
    async with aclosing(_checked(place, found, digest, size)) as content:
        await place.put(key, content, size)
    # A place that says it kept all, and did not, is found out now and not when a job needs the content.
    if (kept := (await place.head(key)).size) != size:
        await place.delete([key])
        raise ContentMismatch("size", size, f"{kept} after it was joined")
    return Publication(key, digest, size)


async def _checked(
    place: ObjectPlace, parts: Sequence[StoredObject], digest: str, size: int
) -> AsyncGenerator[bytes, None]:
    """The content of the parts. It fails at its end, before the place keeps it, if it is not what was announced."""
    hashed, count = hashlib.sha256(), 0
    for part in parts:
        if not part.size:
            continue
        # To its size of a moment ago: if it has grown since, no more than was announced is read.
        async with aclosing(place.get(part.key, 0, part.size)) as pieces:
            async for piece in pieces:
                count += len(piece)
                await _add(hashed, piece)
                yield piece
    if count != size:
        raise ContentMismatch("size", size, count)
    if hashed.hexdigest() != digest:
        raise ContentMismatch("digest", digest, hashed.hexdigest())


async def staged(place: ObjectPlace, upload: str) -> dict[int, int]:
    """The sizes of the parts that are there, by number: what an interrupted upload need not send again."""
    return {part_number(part.key): part.size async for part in place.every(staging_of(upload))}


async def discard(place: ObjectPlace, upload: str) -> None:
    """Deletes all parts of an upload. A part that a signed URL brings later is left to the sweep of old uploads."""
    while page := await place.page(staging_of(upload)):
        await place.delete([part.key for part in page])


async def _add(hashed: hashlib._Hash, piece: bytes) -> None:
    if len(piece) <= HASHED_HERE:
        hashed.update(piece)
    else:
        await asyncio.get_running_loop().run_in_executor(None, hashed.update, piece)
