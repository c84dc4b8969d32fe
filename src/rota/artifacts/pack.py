"""Packs a program: a file, a folder or an archive of the user becomes one archive, always the same for the same files.

The format is tar (`blocks.py`), compressed with zstd. Every tar can list it, and its headers can be written in one way
only: sorted names, no times, no owners, modes 0644 and 0755. A folder comes before what is in it. The digest is that of
the compressed bytes, which a server can check without opening them.

A link to a file in the same folder is packed as a copy of the file. All else that is neither file nor folder is
refused, with its path.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from rota.artifacts import archive, blocks, trees
from rota.artifacts.compression import PIECE, packer
from rota.artifacts.counting import LIMITS, PackLimits, Tally
from rota.artifacts.faults import InvalidProgram, NotPrepared
from rota.artifacts.ignoring import FILE, LARGEST, Ignored
from rota.artifacts.names import checked_name, folded
from rota.artifacts.threads import to_the_end
from rota.errors import shown

# The compressor gets pieces of one size, wherever files begin and end.
_STEP = 128 << 10


class Packed(NamedTuple):
    digest: str  # of the packed bytes
    size: int
    content: str  # the digest of the files, whatever zstd makes of them: two versions of it may differ
    unpacked: int  # bytes of all files
    entries: int


class Packing:
    """The packed bytes of a program, once; afterwards `packed` says what they were."""

    packed: Packed

    def __init__(self, source: Path, limits: PackLimits = LIMITS) -> None:
        self._source, self._what = source, f"program {shown(source.name or source.resolve().name)}"
        self._tally = Tally(self._what, limits)

    def __iter__(self) -> Iterator[bytes]:
        return self._packed()

    def _packed(self) -> Generator[bytes, None, None]:
        digest, content, size = hashlib.sha256(), hashlib.sha256(), 0
        compressor = packer()
        for piece in _in_steps(self._tar(content)):
            if packed := compressor.compress(piece):
                digest.update(packed)
                size += len(packed)
                yield packed
        last = compressor.flush()
        digest.update(last)
        size += len(last)
        self._tally.packed_to(size)
        self.packed = Packed(digest.hexdigest(), size, content.hexdigest(), self._tally.size, self._tally.entries)
        yield last

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The same beside the event loop."""
        pieces = self._packed()
        try:
            while (piece := await to_the_end(partial(next, pieces, None))) is not None:
                yield piece
        finally:
            await to_the_end(pieces.close)

    def _tar(self, content: hashlib._Hash) -> Iterator[bytes]:
        with ExitStack() as stack:
            try:
                for piece in self._pieces(stack):
                    content.update(piece)
                    yield piece
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise NotPrepared(self._what, "no space left to unpack it", "free some, or set TMPDIR") from None
                problem = f"{shown(error.filename)} can't be read ({error.strerror})"
                raise InvalidProgram(self._what, problem, "rota must be able to read what it packs") from None

    def _pieces(self, stack: ExitStack) -> Iterator[bytes]:
        source = self._source
        mode = source.stat().st_mode
        if stat.S_ISREG(mode) and (kind := archive.kind_of(source.name)):
            staged = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-pack-"))) / "files"
            archive.stage(source, kind, staged, self._tally.limits)
            yield from _Tree(staged, self._tally, self._what, ignored=None).pieces()
        elif stat.S_ISDIR(mode):
            yield from _Tree(source, self._tally, self._what, _ignored(source, self._what)).pieces()
        elif stat.S_ISREG(mode):
            name = checked_name(os.fsencode(source.name), self._what)
            descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            yield from _file(descriptor, (name,), self._tally, self._what)
        else:
            raise InvalidProgram(self._what, "it is neither a file nor a folder", "name a file, a folder or an archive")
        yield blocks.END


class _Tree:
    """The files and folders of one folder, in the order of the format."""

    def __init__(self, root: Path, tally: Tally, what: str, ignored: Ignored | None) -> None:
        self._root, self._tally, self._what, self._ignored = root, tally, what, ignored

    def pieces(self) -> Iterator[bytes]:
        descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield from self._inside(descriptor, ())
        finally:
            os.close(descriptor)

    def _inside(self, folder: int, above: tuple[str, ...]) -> Iterator[bytes]:
        seen: dict[str, str] = {}
        for name, mode in self._names(folder, above):
            parts = (*above, name)
            if (other := seen.setdefault(folded(name), name)) != name:
                problem = f"{shown('/'.join(parts))} and {shown(other)} differ in nothing but case"
                raise InvalidProgram(self._what, problem, "rename one of them")
            if stat.S_ISDIR(mode):
                self._tally.entry(parts)
                yield blocks.Header("/".join(parts).encode(), 0, folder=True, executable=False).blocks
                descriptor = os.open(name, trees.FOLDER, dir_fd=folder)
                try:
                    yield from self._inside(descriptor, parts)
                finally:
                    os.close(descriptor)
            else:
                yield from _file(self._open(folder, parts, mode), parts, self._tally, self._what)

    def _names(self, folder: int, above: tuple[str, ...]) -> list[tuple[str, int]]:
        """The names of one folder with their modes, sorted by their bytes."""
        found: list[tuple[bytes, str, int]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if self._ignored is not None and self._ignored((*above, entry.name), is_folder):
                    continue
                raw = os.fsencode(entry.name)
                what = f"{self._what}, in {shown('/'.join(above))}" if above else self._what
                found.append((raw, checked_name(raw, what), entry.stat(follow_symlinks=False).st_mode))
                if len(found) > self._tally.limits.entries:
                    break  # more than the count allows: the rest needn't be known
        return [(name, mode) for _, name, mode in sorted(found)]

    def _open(self, folder: int, parts: tuple[str, ...], mode: int) -> int:
        if stat.S_ISREG(mode):
            return trees.open_file(parts[-1], folder)
        path = shown("/".join(parts))
        if not stat.S_ISLNK(mode):
            raise InvalidProgram(self._what, f"{path} is a {_kind(mode)}", "only files and folders are packed")
        return self._open_link(parts, path)

    def _open_link(self, parts: tuple[str, ...], path: str) -> int:
        """The file that a link means, opened from the root again without following any link."""
        root = os.path.realpath(self._root)
        meant = os.path.realpath(os.path.join(root, *parts))  # noqa: PTH118 - pathlib resolves no lists of names
        if os.path.commonpath([root, meant]) != root:
            raise InvalidProgram(self._what, f"{path} is a link that leads out of the folder", "copy what it means")
        *folders, name = os.path.relpath(meant, root).split("/")
        descriptor = os.open(root, trees.FOLDER)
        try:
            for one in folders:
                inner = os.open(one, trees.FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            if not stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise InvalidProgram(self._what, f"{path} is a link to no file", "copy what it means, or ignore it")
            return trees.open_file(name, descriptor)
        except FileNotFoundError:
            raise InvalidProgram(self._what, f"{path} is a link to nothing", "remove it") from None
        finally:
            os.close(descriptor)


def _file(descriptor: int, parts: tuple[str, ...], tally: Tally, what: str) -> Iterator[bytes]:
    with open(descriptor, "rb", buffering=0) as file:
        found, path = os.fstat(descriptor), "/".join(parts)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidProgram(what, f"{shown(path)} is no file any more", "pack when nothing changes it")
        tally.entry(parts)
        # Also counted while reading; a file of terabytes is refused at once.
        if found.st_size > min(blocks.LARGEST, tally.limits.size):
            tally.add(found.st_size)
            raise InvalidProgram(what, f"{shown(path)} has {found.st_size:,} bytes", "8 GiB are the most for one file")
        yield blocks.Header(path.encode(), found.st_size, folder=False, executable=bool(found.st_mode & 0o100)).blocks
        left = found.st_size
        while left and (piece := file.read(min(PIECE, left))):
            tally.add(len(piece))
            left -= len(piece)
            yield piece
        if left or file.read(1):
            raise InvalidProgram(what, f"{shown(path)} changed while it was packed", "pack when nothing writes to it")
        yield blocks.padding(found.st_size)


def _in_steps(pieces: Iterator[bytes]) -> Iterator[bytes]:
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        while len(gathered) >= _STEP:
            yield bytes(gathered[:_STEP])
            del gathered[:_STEP]
    yield bytes(gathered)


def _ignored(folder: Path, what: str) -> Ignored:
    try:
        with (folder / FILE).open("rb") as file:
            return Ignored(file.read(LARGEST + 1), what)
    except FileNotFoundError:
        return Ignored(b"", what)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket", stat.S_IFBLK: "device", stat.S_IFCHR: "device"}
    return kinds.get(stat.S_IFMT(mode), "special file")


def pack(source: Path, target: BinaryIO, limits: PackLimits = LIMITS) -> Packed:
    """Writes the packed bytes into a file."""
    packing = Packing(source, limits)
    for piece in packing:
        target.write(piece)
    return packing.packed


def content_digest(folder: Path, limits: PackLimits = LIMITS) -> str:
    """`Packed.content` of an unpacked program, as it is now on the disk."""
    what = f"program {shown(folder.name)}"
    content = hashlib.sha256()
    for piece in _Tree(folder, Tally(what, limits), what, ignored=None).pieces():
        content.update(piece)
    content.update(blocks.END)
    return content.hexdigest()
