"""The headers of a packed program: ustar blocks, and a pax record before a name that ustar can't hold.

A header says path, size, and whether a file is executable. All else in it is fixed. So a reader takes these three out,
makes the header again and compares: whatever differs (a link, an owner, a set-uid bit, another format) is refused
without a rule of its own.
"""

from __future__ import annotations

from typing import NamedTuple

BLOCK = 512
END = bytes(2 * BLOCK)
# The largest file that ustar can name.
LARGEST = (1 << 33) - 1
_NAME = 100
_EXTENDED = b"pax"  # the name of a record, and of a file whose name is in a record
_CHECKSUM = slice(148, 156)


class Header(NamedTuple):
    path: bytes  # of a folder: without the slash at its end
    size: int
    folder: bool
    executable: bool

    @property
    def blocks(self) -> bytes:
        name = self.path + b"/" if self.folder else self.path
        kind, mode = (b"5", 0o755) if self.folder else (b"0", 0o755 if self.executable else 0o644)
        if len(name) <= _NAME and name.isascii():
            return _block(name, mode, self.size, kind)
        record = _record(name)
        extended = _block(_EXTENDED, 0o644, len(record), b"x") + record + padding(len(record))
        return extended + _block(_EXTENDED, mode, self.size, kind)


def padding(size: int) -> bytes:
    return bytes(-size % BLOCK)


def checksum(block: bytes) -> int:
    return sum(block) - sum(block[_CHECKSUM]) + 8 * ord(" ")


def extension(block: bytes) -> int | None:
    """The size of the record that this block announces; None: it is the header of a file or folder."""
    return _octal(block[124:136]) if block[156:157] == b"x" else None


def read(block: bytes, record: bytes | None) -> Header | None:
    """A header from its block, and the record before it. The caller compares it with what `blocks` makes of it. None:
    it is none."""
    path = _text(block[:_NAME]) if record is None else record.partition(b"=")[2].removesuffix(b"\n")
    size, mode = _octal(block[124:136]), _octal(block[100:108])
    if not path or size is None or mode is None:
        return None
    folder = block[156:157] == b"5"
    return Header(path.removesuffix(b"/") if folder else path, size, folder, bool(mode & 0o100) and not folder)


def _octal(field: bytes) -> int | None:
    digits = field.removesuffix(b"\0")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else None


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _record(name: bytes) -> bytes:
    """`<length> path=<name>\\n`, where the length counts its own digits."""
    rest = b" path=" + name + b"\n"
    length = len(rest)
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def _block(name: bytes, mode: int, size: int, kind: bytes) -> bytes:
    fields = (
        name.ljust(_NAME, b"\0"), b"%07o\0" % mode, b"%07o\0" % 0, b"%07o\0" % 0, b"%011o\0" % size, b"%011o\0" % 0,
        b" " * 8, kind, bytes(100), b"ustar\0" + b"00", bytes(64), b"%07o\0" % 0, b"%07o\0" % 0, bytes(155 + 12),
    )  # fmt: skip
    block = b"".join(fields)
    return block[:148] + b"%06o\0 " % checksum(block) + block[156:]
