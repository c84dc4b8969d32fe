"""A shelf: folders by key on the disk of one machine, made once and used by all its processes.

    folders/<key>.<token>/   made at the place where it stays: environments have their own path in their files
    marks/<key>              names the folder that is whole; written last, by a rename
    locks/<key>.use          shared by those who use or make the folder, exclusive to remove it
    locks/<key>.make         exclusive to make it

A folder that no mark names does not exist for anybody, so a process may be killed at any instant. What it left is
removed as soon as its lock is free. A lock belongs to a process, not to the jobs it started: the keeper ends these when
their node has died. Within a process all users of a key share one lock and one making.

What was used longest ago is removed when the shelf has grown over its limit, but nothing that is in use. So it may be
larger than its limit while all of it is in use.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from rota.artifacts import trees
from rota.artifacts.faults import NotPrepared
from rota.artifacts.file_locks import EXCLUSIVE, SHARED, FileLock, try_lock, wait_lock
from rota.artifacts.threads import to_the_end
from rota.clock import Chance, Clock

_KEY = re.compile(r"[0-9a-f]{64}")
FORMAT = 1
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Made(NamedTuple):
    size: int  # bytes on the disk
    note: str = ""  # what a later check needs


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    folder: str  # its name in `folders`
    size: int
    note: str
    format: int = FORMAT


class _Holding:
    """The users of one key in this process, and the task that gets it for them."""

    def __init__(self, getting: asyncio.Task[tuple[Path, FileLock]]) -> None:
        self.getting, self.users = getting, 0


class Shelf:
    def __init__(
        self, root: Path, limit: int, what: str, clock: Clock, chance: Chance, patience: float = 900.0
    ) -> None:
        """`patience`: seconds to wait while another process makes what is wanted."""
        self._limit, self._what, self._clock, self._chance, self._patience = limit, what, clock, chance, patience
        self._root, self._folders, self._marks, self._locks = root, root / "folders", root / "marks", root / "locks"
        self._holdings: dict[str, _Holding] = {}

    @asynccontextmanager
    async def use(
        self,
        key: str,
        make: Callable[[Path], Awaitable[Made]],
        whole: Callable[[Path, Mark], bool] = lambda folder, mark: True,
    ) -> AsyncIterator[Path]:
        """The folder of a key, which stays while the block runs. `make` makes it at the path that it is given, and
        `whole` says whether one that is there may be used; it runs in a thread."""
        if not _KEY.fullmatch(key):
            raise NotPrepared(self._name(key), "it is no digest", "keys are 64 hexadecimal digits", passing=False)
        holding = self._holdings.get(key)
        if holding is None:
            holding = self._holdings[key] = _Holding(asyncio.ensure_future(self._get(key, make, whole)))
        holding.users += 1
        try:
            folder, _ = await asyncio.shield(holding.getting)
            yield folder
        finally:
            holding.users -= 1
            await self._let_go(key, holding)

    async def _let_go(self, key: str, holding: _Holding) -> None:
        getting = holding.getting
        failed = getting.done() and (getting.cancelled() or getting.exception() is not None)
        if (failed or not holding.users) and self._holdings.get(key) is holding:
            del self._holdings[key]
        if not holding.users:
            getting.cancel()
            while not getting.done():
                await asyncio.wait([getting])
            if not getting.cancelled() and getting.exception() is None:
                self._touch(key)
                getting.result()[1].close()

    async def _get(
        self, key: str, make: Callable[[Path], Awaitable[Made]], whole: Callable[[Path, Mark], bool]
    ) -> tuple[Path, FileLock]:
        try:
            await to_the_end(self._prepare)
            using = await self._lock(key, "use", SHARED)
            try:
                if (found := await to_the_end(partial(self._find, key, whole))) is None:
                    making = await self._lock(key, "make", EXCLUSIVE)
                    try:
                        found = await to_the_end(partial(self._find, key, whole)) or await self._make(key, make)
                    finally:
                        making.close()
                self._touch(key)
            except BaseException:
                using.close()
                raise
        except OSError as error:
            right = "free some space, or let rota keep less" if error.errno in _FULL else "rota must write there"
            raise NotPrepared(self._name(key), f"{self._root} takes no files ({error.strerror})", right) from error
        return found, using

    async def _lock(self, key: str, name: str, kind: int) -> FileLock:
        try:
            return await wait_lock(self._locks / f"{key}.{name}", kind, self._patience)
        except TimeoutError:
            problem = f"another process has been at it for {self._patience:g}s"
            raise NotPrepared(self._name(key), problem, "it may be stopped; the next use waits again") from None

    async def _make(self, key: str, make: Callable[[Path], Awaitable[Made]]) -> Path:
        name = f"{key}.{self._chance.token()}"
        folder = self._folders / name
        try:
            await to_the_end(partial(self._clear, key))
            made = await make(folder)
            await to_the_end(partial(self._publish, Mark(key, name, made.size, made.note)))
        except BaseException as error:
            await to_the_end(partial(trees.remove, folder))
            if isinstance(error, OSError) and error.errno in _FULL:  # what is not needed may be in the way
                await self.tidy(0)
            raise
        await self.tidy()
        return folder

    def _clear(self, key: str) -> None:
        """Removes what killed processes left of a key that was never whole. A folder whose mark is damaged may be in
        use."""
        if not (self._marks / key).exists():
            for path in self._folders.glob(f"{key}.*"):
                trees.remove(path)

    def _publish(self, mark: Mark) -> None:
        new = self._folders / f"{mark.folder}.mark"
        new.write_bytes(msgspec.json.encode(mark))
        trees.sync(self._folders)
        new.rename(self._marks / mark.key)
        trees.sync_names(self._marks)

    def _prepare(self) -> None:
        """Commands may run as other users, who must reach the folders by their names."""
        for folder, mode in ((self._root, 0o711), (self._folders, 0o711), (self._marks, 0o700), (self._locks, 0o700)):
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700, parents=folder is self._root)
                folder.chmod(mode)

    def _find(self, key: str, whole: Callable[[Path, Mark], bool]) -> Path | None:
        mark = self._mark(key)
        folder = self._folders / mark.folder if mark else None
        return folder if mark and folder and folder.is_dir() and whole(folder, mark) else None

    def _mark(self, key: str) -> Mark | None:
        try:
            mark = msgspec.json.decode((self._marks / key).read_bytes(), type=Mark)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        sound = mark.key == key == mark.folder.partition(".")[0] and "/" not in mark.folder and mark.format == FORMAT
        return mark if sound else None

    def _touch(self, key: str) -> None:
        now = self._clock.now() * 1000
        with suppress(OSError):
            os.utime(self._marks / key, ns=(now, now))

    async def tidy(self, limit: int | None = None) -> None:
        """Removes what killed processes left, and then what was used longest ago until the rest is within the limit."""
        with suppress(OSError):  # the next one tries again
            await to_the_end(partial(self._tidy, self._limit if limit is None else limit))

    def _tidy(self, limit: int) -> None:
        self._prepare()
        # Two at a time would both remove the oldest, and then each another one.
        if (lock := try_lock(self._root / "tidy", EXCLUSIVE)) is None:
            return
        try:
            for key, names in self._found().items():
                mark = self._mark(key)
                if mark is None or names != {mark.folder}:
                    self._tidy_key(key, unmark=mark is not None and mark.folder not in names)
            self._shrink(limit)
        finally:
            lock.close()

    def _found(self) -> dict[str, set[str]]:
        """The folders of each key; a key may have nothing but locks."""
        found: dict[str, set[str]] = {}
        for place in (self._locks, self._folders):
            for path in place.iterdir():
                key = path.name.partition(".")[0]
                if _KEY.fullmatch(key):
                    found.setdefault(key, set()).update([path.name] if place is self._folders else [])
        return found

    def _shrink(self, limit: int) -> None:
        kept = [(path.stat().st_mtime_ns, mark) for path in self._marks.iterdir() if (mark := self._mark(path.name))]
        total = sum(mark.size for _, mark in kept)
        for _, mark in sorted(kept, key=lambda one: (one[0], one[1].key)):
            if total <= limit:
                break
            if self._tidy_key(mark.key, unmark=True):
                total -= mark.size

    def _tidy_key(self, key: str, unmark: bool = False) -> bool:
        """Removes what no mark names, and if wanted the mark before. False: it is in use."""
        use = self._locks / f"{key}.use"
        if (lock := try_lock(use, EXCLUSIVE)) is None:
            return False
        try:
            mark = self._mark(key)
            if unmark or mark is None:
                (self._marks / key).unlink(missing_ok=True)
                mark = None
            for path in self._folders.glob(f"{key}.*"):
                if mark is None or path.name != mark.folder:
                    trees.remove(path)
            if mark is None:
                (self._locks / f"{key}.make").unlink(missing_ok=True)
                use.unlink(missing_ok=True)
        finally:
            lock.close()
        return True

    def _name(self, key: str) -> str:
        return f"{self._what} {key[:12]}"
