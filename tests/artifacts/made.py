"""Programs, archives and packed bytes for tests, written byte by byte where no tool would write them."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rota.artifacts.blocks import END, Header, checksum, padding
from rota.artifacts.compression import zstd
from rota.artifacts.pack import Packed, pack

Contents = Mapping[str, bytes | None]  # None: a folder


def tree(root: Path, contents: Contents, executable: Sequence[str] = ()) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, body in contents.items():
        path = root / name
        if body is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            path.chmod(0o755 if name in executable else 0o644)
    return root


def contents(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in sorted(root.rglob("*"))
    }


def packed(source: Path) -> tuple[bytes, Packed]:
    target = io.BytesIO()
    said = pack(source, target)
    return target.getvalue(), said


def entry(path: str | bytes, body: bytes = b"", *, folder: bool = False, executable: bool = False) -> bytes:
    """An entry as rota writes it, also for paths that it would not write."""
    raw = path.encode() if isinstance(path, str) else path
    return Header(raw, len(body), folder, executable).blocks + body + padding(len(body))


def sealed(*entries: bytes, end: bytes = END) -> bytes:
    return zstd.compress(b"".join(entries) + end)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def block(
    name: bytes = b"a", size: int | bytes = 0, kind: bytes = b"0", mode: bytes = b"0000644\0", *,
    link: bytes = b"", magic: bytes = b"ustar\x0000", prefix: bytes = b"", owner: bytes = b"0000000\0",
) -> bytes:  # fmt: skip
    """A tar header with any fields and the right checksum."""
    sized = size if isinstance(size, bytes) else b"%011o\0" % size
    raw = b"".join(
        (
            name.ljust(100, b"\0"), mode, owner, owner, sized, b"%011o\0" % 0, b" " * 8, kind, link.ljust(100, b"\0"),
            magic, bytes(80), prefix.ljust(155, b"\0"), bytes(12),
        )
    )  # fmt: skip
    return raw[:148] + b"%06o\0 " % checksum(raw) + raw[156:]


def member(name: bytes, body: bytes = b"", **fields: bytes) -> bytes:
    return block(name, len(body), **fields) + body + padding(len(body))


def pax(kind: bytes = b"x", **records: str) -> bytes:
    body = b""
    for key, value in records.items():
        rest = f" {key.replace('__', '.')}={value}\n".encode()
        length = len(rest) + 1
        while len(str(length)) + len(rest) != length:
            length += 1
        body += str(length).encode() + rest
    return member(b"pax", body, kind=kind)


class Zip:
    """A zip archive whose parts may contradict each other."""

    def __init__(self) -> None:
        self.body, self.directory, self.count = bytearray(), bytearray(), 0

    def add(
        self, name: bytes, content: bytes = b"", *, mode: int = 0o100644, local: bytes | None = None,
        flags: int = 0, method: int = 8, size: int | None = None, crc: int | None = None, offset: int | None = None,
        data: bytes | None = None, behind: bytes = b"", local_size: int | None = None,
    ) -> Zip:  # fmt: skip
        deflater = zlib.compressobj(wbits=-15)
        raw = data if data is not None else deflater.compress(content) + deflater.flush() if method == 8 else content
        size, crc = len(content) if size is None else size, zlib.crc32(content) if crc is None else crc
        at = len(self.body) if offset is None else offset
        inner = name if local is None else local
        told = size if local_size is None else local_size
        if offset is None:
            self.body += struct.pack(
                "<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 0, crc, len(raw), told, len(inner), 0
            )
            self.body += inner + raw + behind
        self.directory += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 3 << 8 | 20, 20, flags, method, 0, 0, crc, len(raw), size, len(name), 0, 0, 0, 0,
            mode << 16, at,
        )  # fmt: skip
        self.directory += name
        self.count += 1
        return self

    def bytes(self, *, count: int | None = None, start: int | None = None, comment: bytes = b"") -> bytes:
        number, at = self.count if count is None else count, len(self.body) if start is None else start
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, number, number, len(self.directory), at, len(comment))
        return bytes(self.body + self.directory) + end + comment


@contextmanager
def child() -> Iterator[None]:
    """A forked child that does nothing, as long as the block runs; its hooks have run when it begins."""
    (waiting, telling), (hearing, saying) = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, since Python 3.12
        number = os.fork()
    if not number:
        os.write(saying, b"x")
        os.close(telling)
        os.read(waiting, 1)
        os._exit(0)
    os.read(hearing, 1)
    try:
        yield
    finally:
        for one in (telling, waiting, hearing, saying):
            os.close(one)
        os.waitpid(number, 0)


def descriptors() -> int:
    """Open files of this process. Garbage of other tests may close some meanwhile."""
    place = Path("/proc/self/fd")
    return len([*place.iterdir()]) if place.is_dir() else 0
