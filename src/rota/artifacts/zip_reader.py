"""Reads zip archives of users.

A zip says everything twice, in its central directory and before each file. Readers that believe different ones see
different files; here both must agree. The files must fill the archive from its first byte to the directory, one behind
the other: so nothing overlaps (a small zip with entries on the same bytes holds petabytes), and nothing is hidden.
Sizes and checksums are checked while reading. Python's `zipfile` checks none of the places, and reads a directory of
any size into memory.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from rota.artifacts.compression import PIECE
from rota.artifacts.faults import InvalidProgram
from rota.artifacts.names import loose_path
from rota.artifacts.tar_reader import TarMember
from rota.errors import shown

_END = struct.Struct("<4s4H2LH")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_LONGEST_COMMENT = 0xFFFF
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _DESCRIBED, _UTF8 = 1 << 0, 1 << 3, 1 << 11
# Bits that change how the bytes are read: patched data, strong encryption, masked headers.
_STRANGE = 1 << 5 | 1 << 6 | 1 << 13
_UNIX = 3
# The sizes behind a file whose header came before they were known: with or without a signature, of 4 or 8 bytes.
_DESCRIPTORS = (12, 16, 20, 24)
_AGAIN = "make it again, as a .tar.gz if your tool can't do better"


class _Entry(NamedTuple):
    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    mode: int
    offset: int


def zip_members(file: BinaryIO, what: str, most: int) -> Iterator[TarMember]:
    """Members in the order of their bytes; the contents of each are read when it is asked for them."""
    start, count = _end(file, what)
    if count > most:
        raise InvalidProgram(what, f"more than {most:,} files and folders", f"at most {most:,} are allowed")
    entries = sorted(_directory(file, start, count, what), key=lambda entry: entry.offset)
    place = 0
    for entry, following in zip(entries, [one.offset for one in entries[1:]] + [start], strict=True):
        if entry.offset != place:
            raise InvalidProgram(what, "its files overlap, or something stands between them", _AGAIN)
        data = _data(file, entry, what)
        gap = following - data - entry.packed
        if gap not in (_DESCRIPTORS if entry.flags & _DESCRIBED else (0,)):
            raise InvalidProgram(what, "its files overlap, or something stands between them", _AGAIN)
        place = following
        folder = entry.name.endswith(b"/")
        if folder and entry.size:
            raise InvalidProgram(what, f"the folder {shown(entry.name)} has a size", _AGAIN)
        parts = loose_path(entry.name, what)
        yield parts, folder, bool(entry.mode & 0o100) and not folder, _contents(file, data, entry, what)
    if place != start:
        raise InvalidProgram(what, "something stands before its directory", _AGAIN)


def _end(file: BinaryIO, what: str) -> tuple[int, int]:
    """Where the directory begins, and how many entries it has."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END.size - _LONGEST_COMMENT))
    tail = file.read(_END.size + _LONGEST_COMMENT)
    found = tail.rfind(b"PK\5\6")
    if found < 0 or found + _END.size > len(tail):
        raise InvalidProgram(what, "it is no zip archive, or it is cut short", _AGAIN)
    _, disk, first, here, count, length, start, comment = _END.unpack_from(tail, found)
    at = size - len(tail) + found
    if 0xFFFF in (here, count) or 0xFFFFFFFF in (length, start):
        raise InvalidProgram(what, "it is a zip64 archive", "make it a .tar.gz: such sizes need it")
    if found + _END.size + comment != len(tail) or disk or first or here != count or start + length != at:
        raise InvalidProgram(what, "its parts don't fit together, or something stands before or behind it", _AGAIN)
    if count * _ENTRY.size > length:
        raise InvalidProgram(what, "its directory is damaged", _AGAIN)
    return start, count


def _directory(file: BinaryIO, start: int, count: int, what: str) -> list[_Entry]:
    file.seek(start)
    entries = [_entry(file, what) for _ in range(count)]
    if file.read(4) != b"PK\5\6":
        raise InvalidProgram(what, "its directory is damaged", _AGAIN)
    return entries


def _entry(file: BinaryIO, what: str) -> _Entry:
    head = file.read(_ENTRY.size)
    if len(head) < _ENTRY.size or head[:4] != b"PK\1\2":
        raise InvalidProgram(what, "its directory is damaged", _AGAIN)
    _, made, _, flags, method, _, _, crc, packed, size, name, extra, comment, _, _, attributes, offset = _ENTRY.unpack(
        head
    )
    raw = file.read(name)
    file.seek(extra + comment, os.SEEK_CUR)
    mode = attributes >> 16 if made >> 8 == _UNIX else 0
    entry = _Entry(raw, flags, method, crc, packed, size, mode, offset)
    _check(entry, what)
    return entry


def _check(entry: _Entry, what: str) -> None:
    name = shown(entry.name)
    if entry.flags & (_ENCRYPTED | _STRANGE):
        raise InvalidProgram(what, f"{name} is encrypted or patched", "make it without a password")
    if entry.method not in (_STORED, _DEFLATED):
        raise InvalidProgram(
            what, f"{name} is compressed by method {entry.method}", "make it with `deflate`, as `zip` does"
        )
    if 0xFFFFFFFF in (entry.packed, entry.size, entry.offset):
        raise InvalidProgram(what, f"{name} is larger than a zip can say", "make it a .tar.gz")
    kind = stat.S_IFMT(entry.mode)
    if kind not in (0, stat.S_IFDIR if entry.name.endswith(b"/") else stat.S_IFREG):
        what_it_is = "a link" if kind == stat.S_IFLNK else "neither a file nor a folder"
        raise InvalidProgram(what, f"{name} is {what_it_is}", "only files and folders are packed")


def _data(file: BinaryIO, entry: _Entry, what: str) -> int:
    """Where the bytes of a file begin; its own header must say what the directory says."""
    file.seek(entry.offset)
    head = file.read(_LOCAL.size)
    if len(head) < _LOCAL.size or head[:4] != b"PK\3\4":
        raise InvalidProgram(what, "a file is not where its directory says", _AGAIN)
    _, _, flags, method, _, _, crc, packed, size, name, extra = _LOCAL.unpack(head)
    same = (file.read(name), flags, method) == (entry.name, entry.flags, entry.method)
    told = (crc, packed, size)
    # A writer that described the sizes behind the file had nothing to say here.
    if not same or (not flags & _DESCRIBED and told != (entry.crc, entry.packed, entry.size)):
        raise InvalidProgram(what, f"{shown(entry.name)} is described in two ways", _AGAIN)
    return entry.offset + _LOCAL.size + int(name) + int(extra)


def _contents(file: BinaryIO, place: int, entry: _Entry, what: str) -> Iterator[bytes]:
    pieces = _raw(file, place, entry.packed)
    left, crc = entry.size, 0
    for piece in _inflated(pieces) if entry.method == _DEFLATED else pieces:
        left, crc = left - len(piece), zlib.crc32(piece, crc)
        if left < 0:
            break
        yield piece
    if left or crc != entry.crc:
        raise InvalidProgram(what, f"{shown(entry.name)} is damaged", _AGAIN)


def _raw(file: BinaryIO, place: int, size: int) -> Iterator[bytes]:
    file.seek(place)
    while size and (piece := file.read(min(PIECE, size))):
        size -= len(piece)
        yield piece


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in pieces:
        data = piece
        while data and not inflater.eof:
            yield inflater.decompress(data, PIECE)
            data = inflater.unconsumed_tail
        if inflater.eof and (inflater.unused_data or data):
            raise zlib.error("something stands behind the end of a file")
    # A full piece may have left output inside, though all input was taken.
    while not inflater.eof and (piece := inflater.decompress(b"", PIECE)):
        yield piece
    if not inflater.eof:
        raise zlib.error("a file is cut short")
