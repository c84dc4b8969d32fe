"""Archives of users: read by our own readers into a folder, which is then packed like any other.

Only one format ever reaches a node (`pack.py`), whatever the user brought. Files and folders alone are taken; links,
devices and whatever else a format knows are refused with a line that says how to make the archive without them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from rota.artifacts import trees
from rota.artifacts.compression import FAULTS, PIECE, inflated
from rota.artifacts.counting import LIMITS, PackLimits, Tally
from rota.artifacts.faults import InvalidProgram
from rota.artifacts.names import folded
from rota.artifacts.tar_reader import tar_members
from rota.artifacts.zip_reader import zip_members
from rota.errors import shown

_SUFFIXES = {
    ".zip": "zip", ".tar": "tar", ".tar.gz": "gz", ".tgz": "gz", ".tar.xz": "xz", ".txz": "xz", ".tar.zst": "zst",
    ".tzst": "zst",
}  # fmt: skip
# Headers, padding and records of a tar, beside the files: for each entry, and for an archive without any.
_OVERHEAD, _ROOM = 4096, 1 << 20


class Member(NamedTuple):
    parts: tuple[str, ...]  # empty: the root
    folder: bool
    executable: bool
    pieces: Iterable[bytes]  # must be read to the end before the next member


def kind_of(name: str) -> str | None:
    """None: a file of that name is packed as it is."""
    return next((kind for suffix, kind in _SUFFIXES.items() if name.lower().endswith(suffix)), None)


def stage(source: Path, kind: str, target: Path, limits: PackLimits = LIMITS) -> None:
    """Writes the files of an archive into a fresh folder. The caller removes it, also after an error."""
    what = f"archive {shown(source.name)}"
    with source.open("rb") as file:
        tally = Tally(what, limits, os.fstat(file.fileno()).st_size)
        tree = _Staged(trees.new_folder(target), tally)
        try:
            for member in _members(file, kind, tally):
                tree.add(member)
        except FAULTS as error:
            raise InvalidProgram(what, f"it can't be decompressed ({error})", "make it again") from None
        finally:
            tree.close()


def _members(file: BinaryIO, kind: str, tally: Tally) -> Iterator[Member]:
    if kind == "zip":
        found = zip_members(file, tally.what, tally.limits.entries)
    else:
        pieces = iter(partial(file.read, PIECE), b"") if kind == "tar" else inflated(file, kind)
        found = tar_members(_bounded(pieces, tally), tally.what)
    for one in found:
        yield Member(*one)


def _bounded(pieces: Iterable[bytes], tally: Tally) -> Iterator[bytes]:
    """Also what is in no file is counted: records, padding, zeros behind the end."""
    left = tally.most + tally.limits.entries * _OVERHEAD + _ROOM
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            tally.add(tally.most + 1)
        yield piece


class _Staged:
    """Files and folders in any order, as archives have them."""

    def __init__(self, root: int, tally: Tally) -> None:
        self._root, self._tally, self._what = root, tally, tally.what
        self._known: dict[str, tuple[str, bool]] = {}  # by folded paths: the path, and whether it is a folder

    def add(self, member: Member) -> None:
        if not member.parts:
            if not member.folder:
                raise InvalidProgram(self._what, "it has a file without a name", "make it again")
            return
        folders, name = (member.parts, "") if member.folder else (member.parts[:-1], member.parts[-1])
        descriptor = self._enter(folders)
        try:
            if name:
                self._note(member.parts, folder=False)
                self._write(trees.new_file(name, descriptor), member)
        finally:
            os.close(descriptor)

    def _enter(self, parts: tuple[str, ...]) -> int:
        descriptor = os.dup(self._root)
        for depth in range(1, len(parts) + 1):
            try:
                if self._note(parts[:depth], folder=True):
                    inner = trees.new_folder(parts[depth - 1], descriptor)
                else:
                    inner = os.open(parts[depth - 1], trees.FOLDER, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = inner
        return descriptor

    def _note(self, parts: tuple[str, ...], folder: bool) -> bool:
        """Whether it is new. Folders may be named again, files may not."""
        path = "/".join(parts)
        known, was_folder = self._known.setdefault(folded(path), (path, folder))
        if known != path:
            problem = f"{shown(path)} and {shown(known)} differ in nothing but case"
            raise InvalidProgram(self._what, problem, "rename one of them")
        if was_folder != folder:
            raise InvalidProgram(self._what, f"{shown(path)} is a file and a folder", "make it again")
        if len(self._known) == self._tally.entries:
            if not folder:
                raise InvalidProgram(self._what, f"{shown(path)} is in it twice", "make it again")
            return False
        self._tally.entry(parts)
        return True

    def _write(self, descriptor: int, member: Member) -> None:
        try:
            for piece in member.pieces:
                self._tally.add(len(piece))
                trees.write_all(descriptor, piece)
            os.fchmod(descriptor, 0o755 if member.executable else 0o644)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        os.close(self._root)
