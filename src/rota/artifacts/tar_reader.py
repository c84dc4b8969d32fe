"""Reads tar archives of users, as a stream: v7, ustar, pax and GNU headers, as far as files and folders need them.

Python's `tarfile` is not used. It reads a record of any size into memory, guesses at damaged headers, and finds
members that other readers don't. Here the sizes of records are bounded, and what is not understood is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rota.artifacts.blocks import BLOCK, checksum
from rota.artifacts.faults import InvalidProgram
from rota.artifacts.names import loose_path
from rota.errors import shown

_LONGEST_RECORD = 64 << 10
_KINDS = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a named pipe",
    b"S": "a sparse file", b"D": "a GNU folder dump", b"M": "the rest of another volume", b"V": "a volume label",
}  # fmt: skip
_LINKS = (b"1", b"2", b"K")
# Members: names, whether it is a folder, whether it is executable, contents.
TarMember = tuple[tuple[str, ...], bool, bool, Iterator[bytes]]


class _Fields(NamedTuple):
    path: bytes
    size: int
    kind: bytes
    executable: bool


class _Stream:
    def __init__(self, pieces: Iterator[bytes], what: str) -> None:
        self._pieces, self._buffer, self._what = pieces, bytearray(), what

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not self._fill():
                raise InvalidProgram(self._what, "it is cut short", "make it again")
        return self._cut(size)

    def up_to(self, most: int) -> bytes:
        if not self._buffer and not self._fill():
            raise InvalidProgram(self._what, "it is cut short", "make it again")
        return self._cut(min(most, len(self._buffer)))

    def only_zeros_left(self) -> bool:
        while True:
            if self._buffer.strip(b"\0"):
                return False
            self._buffer.clear()
            if not self._fill():
                return True

    def _fill(self) -> bool:
        piece = next(self._pieces, b"")
        self._buffer += piece
        return bool(piece)

    def _cut(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


def tar_members(pieces: Iterator[bytes], what: str) -> Iterator[TarMember]:
    """The contents of a member are skipped as far as they were not read."""
    stream = _Stream(pieces, what)
    while (fields := _next(stream, what)) is not None:
        folder = fields.kind == b"5" or (fields.kind in (b"0", b"\0", b"7") and fields.path.endswith(b"/"))
        if folder and fields.size:
            raise InvalidProgram(what, f"the folder {shown(fields.path)} has a size", "make it again")
        body = _body(stream, fields.size)
        yield loose_path(fields.path, what), folder, fields.executable and not folder, body
        for _ in body:
            pass
        stream.exactly(-fields.size % BLOCK)
    if not stream.only_zeros_left():
        raise InvalidProgram(what, "something stands behind its end", "make it again")


def _body(stream: _Stream, size: int) -> Iterator[bytes]:
    while size:
        piece = stream.up_to(size)
        size -= len(piece)
        yield piece


def _next(stream: _Stream, what: str) -> _Fields | None:
    """The next file or folder, with what the records before it say."""
    path: bytes | None = None
    size: int | None = None
    while (block := stream.exactly(BLOCK)) != bytes(BLOCK):
        fields = _fields(block, what)
        if fields.kind in (b"x", b"g", b"X"):
            records = _records(_record(stream, fields.size, what), what)
            if fields.kind == b"g" and {b"path", b"size", b"linkpath"} & set(records):
                raise InvalidProgram(what, "a record gives all files one name or size", "make it again")
            if any(key.startswith(b"GNU.sparse") for key in records):
                raise InvalidProgram(what, "it has a sparse file", "make it without `--sparse`")
            if fields.kind != b"g":
                path, size = records.get(b"path", path), _size(records.get(b"size"), size, what)
        elif fields.kind == b"L":
            path = _record(stream, fields.size, what).partition(b"\0")[0]
        elif fields.kind in (b"0", b"\0", b"7", b"5"):
            return fields._replace(
                path=fields.path if path is None else path, size=fields.size if size is None else size
            )
        else:
            raise _other(fields, path, what)
    if path is not None or size is not None:
        raise InvalidProgram(what, "a record stands before no file", "make it again")
    return None


def _other(fields: _Fields, path: bytes | None, what: str) -> InvalidProgram:
    is_link = fields.kind in _LINKS
    kind = "a link" if fields.kind == b"K" else _KINDS.get(fields.kind, f"of the unknown type {shown(fields.kind)}")
    right = "make it with `tar --dereference --hard-dereference`" if is_link else "only files and folders are packed"
    return InvalidProgram(what, f"{shown(path or fields.path)} is {kind}", right)


def _fields(block: bytes, what: str) -> _Fields:
    size, mode = _number(block[124:136]), _number(block[100:108])
    if _number(block[148:156]) != checksum(block) or size is None or mode is None:
        raise InvalidProgram(what, "a header is damaged, or it is no tar archive", "make it again")
    path = block[:100].partition(b"\0")[0]
    if block[257:265] == b"ustar\x0000" and (prefix := block[345:500].partition(b"\0")[0]):
        path = prefix + b"/" + path
    return _Fields(path, size, block[156:157], bool(mode & 0o100))


def _number(field: bytes) -> int | None:
    """Octal digits between blanks and NULs, or GNU's binary form for what they can't hold."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        return None
    return int(digits or b"0", 8)


def _record(stream: _Stream, size: int, what: str) -> bytes:
    if size > _LONGEST_RECORD:
        raise InvalidProgram(what, "a header is too long", f"at most {_LONGEST_RECORD >> 10} KiB are read")
    record = stream.exactly(size)
    stream.exactly(-size % BLOCK)
    return record


def _records(text: bytes, what: str) -> dict[bytes, bytes]:
    """Lines of pax: `<length> <key>=<value>\\n`, where the length is that of the whole line."""
    found: dict[bytes, bytes] = {}
    while text:
        digits, blank, _ = text[:20].partition(b" ")
        length = int(digits) if digits.isdigit() and blank else 0
        key, equals, value = text[len(digits) + 1 : length].partition(b"=")
        if length > len(text) or not equals or not value.endswith(b"\n") or not key:
            raise InvalidProgram(what, "a pax record is damaged", "make it again")
        found[key], text = value[:-1], text[length:]
    return found


def _size(text: bytes | None, before: int | None, what: str) -> int | None:
    if text is None:
        return before
    if not text.isdigit() or len(text) > 20:
        raise InvalidProgram(what, f"a pax record has the size {shown(text)}", "make it again")
    return int(text)
