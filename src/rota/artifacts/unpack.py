"""Unpacks a program on a node. It reads the one format that `pack` writes, and trusts none of its bytes.

- A header must be, byte by byte, the one that `pack` would write, which can't say link, device or set-uid.
- Entries stand in the order of `pack`: a folder, then what is in it, names rising. So the folder of each entry is open
  already, a name is opened in it alone, and no path is ever looked up.
- What is written is counted. The size and the digest of the packed bytes are known before; one byte more ends it.
- The folder is fresh, and only its owner may enter it until the digest was found right. After an error it is removed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Generator, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rota.artifacts import blocks, trees
from rota.artifacts.compression import FAULTS, PIECE, unpacker
from rota.artifacts.counting import LIMITS, PackLimits, Tally
from rota.artifacts.faults import InvalidProgram, NotPrepared
from rota.artifacts.names import checked_path, folded
from rota.artifacts.threads import to_the_end

RIGHT = "rota unpacks only what rota has packed"
# The path in a record is checked again later; this bounds what is kept until then.
_LONGEST_RECORD = 4096


class Unpacked(NamedTuple):
    content: str  # the digest of the files, whatever they were compressed with: `pack.content_digest`
    size: int  # bytes of all files
    entries: int


class _OpenFolder:
    def __init__(self, parts: tuple[str, ...], descriptor: int) -> None:
        self.parts, self.descriptor = parts, descriptor
        self.last = b""
        self.names: set[str] = set()

    def seal(self) -> None:
        os.fchmod(self.descriptor, trees.EXECUTABLE)
        os.close(self.descriptor)


class Unpacker:
    """Takes packed bytes in pieces of any size. Call `finish` after the last one, or `abandon` at any time."""

    def __init__(self, target: Path, digest: str, size: int, limits: PackLimits = LIMITS) -> None:
        """`digest` and `size` of the packed bytes; `target` must not exist."""
        self._target, self._digest, self._size = target, digest, size
        self._what = f"program {digest[:12]}"
        self._tally = Tally(self._what, limits, size)
        self._taken, self._packed, self._content = 0, hashlib.sha256(), hashlib.sha256()
        self._inflater = unpacker()
        self._buffer = bytearray()
        self._file: int | None = None
        self._folders = [_OpenFolder((), trees.new_folder(target))]
        self._entries = self._read_entries()
        self._complete = False

    def feed(self, data: bytes) -> None:
        self._taken += len(data)
        if self._taken > self._size:
            raise self._other("more bytes came than it has")
        self._packed.update(data)
        try:
            while data or not (self._inflater.needs_input or self._inflater.eof):
                if self._inflater.eof:
                    raise self._wrong("something stands behind its end")
                piece, data = self._inflater.decompress(data, PIECE), b""
                self._take(piece)
        except FAULTS as error:
            raise self._wrong(f"it can't be decompressed ({error})") from None
        if self._inflater.unused_data:
            raise self._wrong("something stands behind its end")

    def finish(self) -> Unpacked:
        """Checks that all has come, and hands the folder over, read-only."""
        if self._packed.hexdigest() != self._digest or self._taken != self._size:
            raise self._other(
                "other bytes came than its digest says" if self._taken == self._size else "it is cut short"
            )
        if not (self._inflater.eof and self._complete):
            raise self._wrong("it is cut short")
        while self._folders:
            self._folders.pop().seal()
        return Unpacked(self._content.hexdigest(), self._tally.size, self._tally.entries)

    def abandon(self) -> None:
        self._entries.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None
        while self._folders:
            os.close(self._folders.pop().descriptor)
        trees.remove(self._target)

    def _take(self, piece: bytes) -> None:
        self._content.update(piece)
        self._buffer += piece
        if self._complete and self._buffer:
            raise self._wrong("something stands behind its end")
        if piece:
            next(self._entries, None)

    def _read_entries(self) -> Generator[None, None, None]:
        """Goes on as far as the bytes reach, and waits for more."""
        while (block := (yield from self._exactly(blocks.BLOCK))) != bytes(blocks.BLOCK):
            raw, record = block, None
            if (size := blocks.extension(block)) is not None:
                if size > _LONGEST_RECORD:
                    raise self._wrong("a header is too long")
                record = yield from self._exactly(size + len(blocks.padding(size)))
                block = yield from self._exactly(blocks.BLOCK)
                raw, record = raw + record + block, record[:size]
            header = blocks.read(block, record)
            if header is None or header.blocks != raw:
                raise self._wrong("a header is not one of rota's")
            yield from self._write(header)
        if (yield from self._exactly(blocks.BLOCK)) != bytes(blocks.BLOCK) or self._buffer:
            raise self._wrong("something stands behind its end")
        self._complete = True

    def _write(self, header: blocks.Header) -> Generator[None, None, None]:
        parts = checked_path(header.path, self._what)
        self._tally.entry(parts)
        folder = self._place(parts)
        if header.folder:
            if header.size:
                raise self._wrong("a folder has a size")
            self._folders.append(_OpenFolder(parts, trees.new_folder(parts[-1], folder.descriptor)))
            return
        self._file = trees.new_file(parts[-1], folder.descriptor)
        left = header.size
        while left:
            piece = yield from self._some(left)
            self._tally.add(len(piece))
            trees.write_all(self._file, piece)
            left -= len(piece)
        os.fchmod(self._file, trees.EXECUTABLE if header.executable else trees.READ_ONLY)
        descriptor, self._file = self._file, None
        os.close(descriptor)
        zeros = blocks.padding(header.size)
        if zeros and (yield from self._exactly(len(zeros))) != zeros:
            raise self._wrong("something stands between its files")

    def _place(self, parts: tuple[str, ...]) -> _OpenFolder:
        """The open folder in which this entry comes next."""
        while self._folders[-1].parts != parts[: len(self._folders[-1].parts)]:
            self._folders.pop().seal()
        folder, name = self._folders[-1], parts[-1]
        if folder.parts != parts[:-1] or name.encode() <= folder.last:
            raise self._wrong("its entries are not in order, or one stands twice")
        if folded(name) in folder.names:
            raise self._wrong(f"two names differ in nothing but case: {name!r} is one")
        folder.names.add(folded(name))
        folder.last = name.encode()
        return folder

    def _exactly(self, size: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < size:
            yield
        return self._cut(size)

    def _some(self, most: int) -> Generator[None, None, bytes]:
        while not self._buffer:
            yield
        return self._cut(min(most, len(self._buffer)))

    def _cut(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _wrong(self, problem: str) -> InvalidProgram:
        return InvalidProgram(self._what, problem, RIGHT)

    def _other(self, problem: str) -> NotPrepared:
        return NotPrepared(self._what, problem, "it is asked for again at the next use")


def unpack(chunks: Iterable[bytes], target: Path, digest: str, size: int, limits: PackLimits = LIMITS) -> Unpacked:
    unpacker = Unpacker(target, digest, size, limits)
    try:
        for chunk in chunks:
            unpacker.feed(chunk)
        return unpacker.finish()
    except BaseException:
        unpacker.abandon()
        raise


async def unpack_stream(
    chunks: AsyncIterator[bytes], target: Path, digest: str, size: int, limits: PackLimits = LIMITS
) -> Unpacked:
    """The same beside the event loop, in steps of `PIECE`."""
    unpacker = await to_the_end(partial(Unpacker, target, digest, size, limits))
    try:
        gathered = bytearray()
        async for chunk in chunks:
            gathered += chunk
            if len(gathered) >= PIECE:
                await to_the_end(partial(unpacker.feed, bytes(gathered)))
                gathered.clear()
        await to_the_end(partial(unpacker.feed, bytes(gathered)))
        return await to_the_end(unpacker.finish)
    except BaseException:
        await to_the_end(unpacker.abandon)
        raise
