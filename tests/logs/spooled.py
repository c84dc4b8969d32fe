"""A sink with a journal, a store that does what the contract says, and a death at any byte that is written."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rota.clock import ManualClock
from rota.logs import journal
from rota.logs.journal import JournalFile, Title
from rota.logs.recovery import Broken, Remains, found
from rota.logs.sink import Sink
from rota.logs.spool import Spool
from rota.model.job import Ref
from rota.store.values import CUT, Chunk

REF = Ref("job", 1)
MARK = re.compile(rb"\n\[rota: ([\d,]+) bytes \((?:about )?[\d,]+ lines\) of output are left out here: the limit is")
SMALL_FILE = 700


class Killed(BaseException):
    """The process is gone: nothing of it goes on."""


@dataclass
class Budget:
    """Bytes that may still be written before the death."""

    left: int = 1 << 40

    def spend(self, size: int) -> int:
        allowed = min(size, self.left)
        self.left -= allowed
        return allowed


@dataclass
class Shelf:
    """Keeps chunks by number, and replaces what marks stand for."""

    kept: dict[int, Chunk] = field(default_factory=dict)

    def append(self, chunks: Sequence[Chunk]) -> None:
        for mark in chunks:
            if mark.since is not None:
                self.kept = {n: one for n, one in self.kept.items() if not mark.since <= n <= mark.number}
        for chunk in chunks:
            self.kept.setdefault(chunk.number, chunk)

    @property
    def said(self) -> tuple[bytes, int, bytes]:
        """What is before the mark, how many bytes it stands for, and what is behind it."""
        chunks = [self.kept[number] for number in sorted(self.kept)]
        places = [place for place, one in enumerate(chunks) if one.stream == CUT]
        assert len(places) <= 1
        if not places:
            return b"".join(one.body for one in chunks), 0, b""
        found = MARK.match(chunks[places[0]].body)
        assert found
        first, last = (b"".join(c.body for c in part) for part in (chunks[: places[0]], chunks[places[0] + 1 :]))
        return first, int(found[1].replace(b",", b"")), last


class Life:
    """One node with one attempt."""

    def __init__(self, folder: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limit, self.budget, self.shelf = limit, Budget(), Shelf()
        self.clock = ManualClock()
        self.spool = Spool(folder, "life", _raised)
        place = self.spool.of(lambda: Title(REF.job_id, REF.fence, limit))
        self.sink = Sink(REF, limit, self.clock.now, lambda _: None, spool=place)
        self.written = b""
        self.under_way = b""  # bytes of a write that did not come back
        self.sent: list[list[Chunk]] = []
        write = JournalFile.write

        def dying(file: JournalFile, *parts: bytes) -> None:
            whole = b"".join(parts)
            allowed = self.budget.spend(len(whole))
            if allowed < len(whole):
                os.pwrite(file.descriptor, whole[:allowed], file.end)
                raise Killed
            write(file, *parts)

        monkeypatch.setattr(JournalFile, "write", dying)
        monkeypatch.setattr(journal, "FILE_SIZE", SMALL_FILE)

    def write(self, body: bytes, stream: str = "stdout") -> None:
        self.under_way = body
        self.sink.write(stream, body)
        self.written, self.under_way = self.written + body, b""

    def take(self, room: int) -> bool:
        chunks = self.sink.take_first(room)
        chunks += self.sink.take_last(room - sum(len(one.body) for one in chunks))
        if chunks:
            self.sent.append(chunks)
        return bool(chunks)

    def carry(self, room: int, reaches: bool = True) -> None:
        """Takes and sends; unless it `reaches` the store, the node goes on without an answer."""
        if self.take(room) and reaches:
            self.shelf.append(self.sent[-1])
            self.sink.stored()

    @property
    def folder(self) -> Path:
        return self.spool.folder

    def replay(self, most: int = 1 << 40) -> list[Chunk]:
        """What a replay appends; it dies after so many chunks."""
        chunks = remains(copied(self.folder), self.limit)
        for chunk in chunks[:most]:
            self.shelf.append([chunk])
        return chunks

    def check(self) -> None:
        """Every byte is there once, in order, or the mark stands for it."""
        first, left, last = self.shelf.said
        size = len(first) + left + len(last)
        everything = self.written + self.under_way
        assert size in (len(self.written), len(everything))
        everything = everything[:size]
        assert first == everything[: len(first)]
        assert last == everything[size - len(last) :]
        assert left == 0 or len(first) >= self.limit // 2 - 64


def remains(folder: Path, limit: int) -> list[Chunk]:
    chunks: list[Chunk] = []
    for one in found(folder, limit):
        assert isinstance(one, Remains), one
        chunks += one.chunks
    return chunks


def copied(folder: Path) -> Path:
    """A replay removes files that say nothing; their owner may still live."""
    return Path(shutil.copytree(folder, Path(tempfile.mkdtemp(dir=folder.parent)) / "copy"))


def broken(folder: Path) -> list[Broken]:
    return [one for one in found(folder, 1000) if isinstance(one, Broken)]


def _raised(error: OSError) -> None:
    raise error
