"""Compressed streams, read in bounded pieces: a small input may hold any amount of output."""

from __future__ import annotations

import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["FAULTS", "PIECE", "Inflater", "inflated", "packer", "unpacker", "zstd"]

PIECE = 256 << 10
# Level 3 packs several times faster than it is downloaded. Another level makes other bytes, and so another digest.
_LEVEL = 3
# The window of level 3 has 2 MiB. A frame may ask its reader for 2 GiB.
_WINDOW = 21
# What tools need at their strongest common setting.
_WINDOW_OF_USERS = 27
_XZ_MEMORY = 128 << 20
FAULTS = (zstd.ZstdError, lzma.LZMAError, zlib.error, EOFError)


class Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def packer() -> zstd.ZstdCompressor:
    parameters: dict[int, int] = {
        zstd.CompressionParameter.compression_level: _LEVEL,
        zstd.CompressionParameter.window_log: _WINDOW,
    }
    return zstd.ZstdCompressor(options=parameters)


def unpacker(window: int = _WINDOW) -> Inflater:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window})


class _Gzip:
    """zlib's decompressor with the face of the others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self._more = False

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._more

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        piece = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        # A full piece may have left output inside, though all input was taken.
        self._more = not self._inner.eof and (bool(self._inner.unconsumed_tail) or len(piece) == max_length)
        return piece


_KINDS: dict[str, Callable[[], Inflater]] = {
    "gz": _Gzip,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
    "zst": lambda: unpacker(_WINDOW_OF_USERS),
}


def inflated(file: BinaryIO, kind: str) -> Iterator[bytes]:
    """The contents of a compressed file of users: members behind each other, as `cat` makes them. Raises `FAULTS`."""
    pending = file.read(PIECE)
    if not pending:
        raise EOFError("it is empty")
    while pending:
        inflater = _KINDS[kind]()
        while not inflater.eof:
            if inflater.needs_input and not pending and not (pending := file.read(PIECE)):
                raise EOFError("it is cut short")
            given, pending = (pending, b"") if inflater.needs_input else (b"", pending)
            if piece := inflater.decompress(given, PIECE):
                yield piece
        # Zeros behind the last member are padding of tapes and of xz.
        pending = (inflater.unused_data or file.read(PIECE)).lstrip(b"\0")
        while not pending and (more := file.read(PIECE)):
            pending = more.lstrip(b"\0")
