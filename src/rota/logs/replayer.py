"""Brings the output that dead nodes left in their spools to the store.

A spool may be read by whoever holds its lock, which is free when its node and all that the node started are gone. An
attempt must have ended in the store first: then nothing that its node had sent can come after us. Until that, and while
the store is away, the spool waits. A replay that is cut short is made again from the same files, with the same numbers:
what was appended before is known to the store.

Files that can't be read, or whose contents the store refuses for good, are put aside and told of, once.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rota.errors import RotaError
from rota.logs.recovery import Broken, Remains, found
from rota.logs.spool import abandoned, check_owner
from rota.model.job import Ref, Verdict
from rota.model.principal import SYSTEM
from rota.refusals import Refusals, anyones
from rota.store.base import Store
from rota.store.values import Chunk
from rota.telemetry.events import Bus, OutputAside, OutputRecovered

# Seconds between two looks for spools without an owner, and while one waits for the ends of its attempts.
LOOK = 5.0
LOOK_SOON = 0.5
LARGEST_BATCH = 1 << 20
ASIDE = "aside"
# Files that are kept aside; older ones are removed.
MOST_ASIDE = 100
LONGEST_NAME = 255  # bytes, on all usual file systems


class Replayer:
    name = "replay of output"

    def __init__(self, store: Store, base: Path, own: str, limit: int, bus: Bus) -> None:
        """`own`: the name of the spool in `base` that this node writes."""
        self._store, self._base, self._own, self._limit, self._bus = store, base, own, limit, bus
        self._refusals: dict[Ref, Refusals] = {}

    async def tick(self) -> float:
        waits, trouble = False, None
        for folder in await asyncio.to_thread(self._folders):
            with abandoned(folder) as free:
                try:
                    waits |= free and not await self._replay(folder)
                except OSError as error:  # of this folder: the others go on
                    trouble = error
        if trouble is not None:
            raise trouble
        return LOOK_SOON if waits else LOOK

    def _folders(self) -> list[Path]:
        with suppress(OSError):
            check_owner(self._base)
            names = sorted(one.name for one in self._base.iterdir())
            return [self._base / name for name in names if name not in (self._own, ASIDE)]
        return []

    async def _replay(self, folder: Path) -> bool:
        """Whether nothing of it is left."""
        done, size, attempts = True, 0, 0
        remains = found(folder, self._limit)
        while (one := await asyncio.to_thread(next, remains, None)) is not None:
            if isinstance(one, Broken):
                self._put_aside(folder, one.paths, one.why)
                continue
            try:
                appended = await self._append(one)
            except RotaError as error:
                if anyones(error) or not self._hopeless(one, error):
                    raise
                self._put_aside(folder, one.paths, f"{type(error).__name__}: {error}")
                continue
            if appended is None:
                done = False
                continue
            size, attempts = size + appended, attempts + bool(appended)
            for path in one.paths:
                path.unlink(missing_ok=True)
        if done:
            await asyncio.to_thread(folder.rmdir)
        if attempts:
            self._bus.emit(OutputRecovered(attempts, size))
        return done

    def _hopeless(self, remains: Remains, error: Exception) -> bool:
        return self._refusals.setdefault(remains.ref, Refusals()).hopeless(error)

    async def _append(self, remains: Remains) -> int | None:
        """The number of bytes that were new to the store; None: its attempt has not ended yet."""
        self._store.vouch(remains.ref, remains.proof)
        new = 0
        for batch in _batches(remains.chunks):
            verdicts = await self._store.append_output(SYSTEM, batch, late=True)
            if Verdict.EARLY in verdicts:
                return None
            applied = zip(batch, verdicts, strict=True)
            new += sum(len(chunk.body) for chunk, verdict in applied if verdict is Verdict.APPLIED)
        return new

    def _put_aside(self, folder: Path, paths: Sequence[Path], why: str) -> None:
        aside = self._base / ASIDE
        aside.mkdir(mode=0o700, exist_ok=True)
        kept = sorted(aside.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in kept[: max(len(kept) + len(paths) - MOST_ASIDE, 0)]:
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        for path in paths:
            name = os.fsencode(f"{folder.name}-{path.name}")[:LONGEST_NAME]
            path.rename(aside / os.fsdecode(name))
        self._bus.emit(OutputAside(str(aside), why))


def _batches(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    batch: list[Chunk] = []
    size = 0
    for chunk in chunks:
        if batch and size + len(chunk.body) > LARGEST_BATCH:
            yield batch
            batch, size = [], 0
        batch.append(chunk)
        size += len(chunk.body)
    if batch:
        yield batch
