"""The unpacked programs of a machine, by the digests of their packed bytes: `shelf.py` says how they are kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

import msgspec

from rota.artifacts.counting import LIMITS, PackLimits
from rota.artifacts.faults import InvalidProgram, NotPrepared
from rota.artifacts.pack import content_digest
from rota.artifacts.shelf import Made, Mark, Shelf
from rota.artifacts.unpack import unpack_stream
from rota.clock import Chance, Clock

# What a small file takes on a disk beside its bytes.
_PER_ENTRY = 4096
Fetch = Callable[[], AsyncIterator[bytes]]


class ProgramCache:
    """`check`: also read all files of a program before its use, when this process does not use it yet. Without it the
    mark of a whole program is enough."""

    def __init__(
        self, folder: Path, limit: int, clock: Clock, chance: Chance, *,
        limits: PackLimits = LIMITS, check: bool = False, patience: float = 900.0,
    ) -> None:  # fmt: skip
        self._limits = msgspec.structs.replace(limits, size=min(limits.size, limit))
        self._check = check
        self._shelf = Shelf(folder, limit, "program", clock, chance, patience)

    def use(self, digest: str, size: int, fetch: Fetch) -> AbstractAsyncContextManager[Path]:
        """The read-only folder of a program. `fetch` brings its packed bytes, if the machine doesn't have it."""

        async def make(folder: Path) -> Made:
            async with aclosing(_fetched(digest, fetch)) as chunks:
                made = await unpack_stream(chunks, folder, digest, size, self._limits)
            return Made(made.size + made.entries * _PER_ENTRY, made.content)

        return self._shelf.use(digest, make, self._whole)

    async def tidy(self) -> None:
        await self._shelf.tidy()

    def _whole(self, folder: Path, mark: Mark) -> bool:
        if not self._check:
            return True
        try:
            return content_digest(folder, self._limits) == mark.note
        except (InvalidProgram, OSError):
            return False


async def _fetched(digest: str, fetch: Fetch) -> AsyncGenerator[bytes, None]:
    """Trouble of the network is told apart from trouble with the disk, which raises OSError too."""
    try:
        async for chunk in fetch():
            yield chunk
    except OSError as error:
        raise NotPrepared(
            f"program {digest[:12]}", f"it can't be fetched ({error})", "the next use asks again"
        ) from error
