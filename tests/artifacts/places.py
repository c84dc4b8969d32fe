"""Object places for tests: a folder and a bucket, each with a second way to look at it."""

from __future__ import annotations

import asyncio
import itertools
import os
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from rota.artifacts.folder import FolderPlace
from rota.artifacts.place import ObjectPlace
from rota.artifacts.s3 import S3Place
from rota.artifacts.signing import SignatureRefused, UrlSigner
from rota.clock import Chance, SystemClock
from rota.objects_address import S3Address, objects_address
from tests.servers.seaweed import Seaweed, shared_seaweed

PATIENCE = 20.0
SECRET = bytes(range(32))
_numbers = itertools.count(1)


class Place(ABC):
    """One place for bytes; `open` gives as many faces of it as a test wants."""

    @abstractmethod
    def open(self, limit: float = PATIENCE) -> ObjectPlace: ...

    @abstractmethod
    async def use(self, method: str, url: str, body: bytes = b"") -> bytes | None:
        """What a client gets with a signed URL; None: it is refused."""


class InFolder(Place):
    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, limit: float = PATIENCE) -> FolderPlace:
        return FolderPlace(
            self.root, SystemClock(), Chance(), signer=UrlSigner(SECRET), base="http://rota/objects", limit=limit
        )

    async def use(self, method: str, url: str, body: bytes = b"") -> bytes | None:
        """As the API is going to serve them."""
        parts = urlsplit(url)
        key = parts.path.removeprefix("/objects/")
        try:
            UrlSigner(SECRET).check(method, key, dict(parse_qsl(parts.query)), SystemClock().now())
        except SignatureRefused:
            return None
        if method == "PUT":
            await self.open().put(key, content(body))
        return await read(self.open(), key) if method == "GET" else b""


class InBucket(Place):
    def __init__(self, server: Seaweed) -> None:
        self.server, self.prefix = server, f"/test-{os.getpid()}-{next(_numbers)}"

    @property
    def address(self) -> S3Address:
        return s3_address(self.server.url(prefix=self.prefix))

    def open(self, limit: float = PATIENCE) -> S3Place:
        return S3Place(self.address, Chance(), limit=limit)

    async def use(self, method: str, url: str, body: bytes = b"") -> bytes | None:
        return await asyncio.to_thread(fetch, method, url, body)


KINDS = ("folder", "s3")


def place_of(kind: str, folder: Path) -> Place:
    return InFolder(folder / "objects") if kind == "folder" else InBucket(shared_seaweed())


def s3_address(url: str) -> S3Address:
    address = objects_address(url)
    assert isinstance(address, S3Address)
    return address


def fetch(method: str, url: str, body: bytes = b"") -> bytes | None:
    request = urllib.request.Request(url, method=method, data=body if method == "PUT" else None)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as refused:
        if refused.code != 403:
            raise
        return None


async def content(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def read(place: ObjectPlace, key: str, start: int = 0, end: int | None = None) -> bytes:
    async with aclosing(place.get(key, start, end)) as pieces:
        return b"".join([piece async for piece in pieces])


async def keys(place: ObjectPlace, prefix: str = "") -> list[str]:
    return [found.key async for found in place.every(prefix)]
