"""Packs segments in a process of its own.

To find the words of a text and to compress it holds the interpreter for milliseconds at a time, and a node that seals a
flood would be late with everything else. The process is started at the first need, works at a lower priority, and ends
when it was not needed for a minute, or with the node: then its input ends. If it can't be started or dies, the node
packs by itself.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

import msgspec

from rota.lines.segment import Packed, pack
from rota.store.values import Chunk

NICE = 10
IDLE = 60.0
_LENGTH = struct.Struct("<I")
_PR_SET_DUMPABLE = 4
_Row = tuple[str, int, int, int, str, bytes]
_rows = msgspec.msgpack.Decoder(list[_Row])
_packed = msgspec.msgpack.Decoder(Packed)
_encode = msgspec.msgpack.Encoder().encode


class Packer:
    """`environment`: without secrets, for it can be read until the process has hidden itself."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._at_work = 0

    async def pack(self, chunks: Sequence[Chunk]) -> Packed:
        self._wait()
        self._at_work += 1
        try:
            return await asyncio.to_thread(self._pack, chunks)
        finally:
            self._at_work -= 1
            self._wait()

    def _wait(self) -> None:
        """Ends the process when nothing has been packed for a minute. Calls may overlap: there is one timer, and none
        while one of them is at work."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._at_work else asyncio.get_running_loop().call_later(IDLE, self.close)

    def _pack(self, chunks: Sequence[Chunk]) -> Packed:
        with self._lock:
            try:
                process = self._process = self._process or self._started()
                assert process.stdin is not None
                assert process.stdout is not None
                _write(process.stdin, _encode([(*_key(one), one.stream, one.body) for one in chunks]))
                answer = _read(process.stdout)
            except (OSError, ValueError):  # it is gone, or was closed meanwhile
                answer = None
            if answer:
                return _packed.decode(answer)
            self.close()
        return pack(chunks)  # the process is gone; or it could not pack this, and the error will tell

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-c", "from rota.lines.packer import main; main()"]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=dict(self._environment), start_new_session=True,
        )  # fmt: skip

    def close(self) -> None:
        """Also while it packs: whoever waits for that packs by itself."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what was not written is not wanted
                    if pipe is not None:
                        pipe.close()


def _key(chunk: Chunk) -> tuple[str, int, int, int]:
    return chunk.job_id, chunk.fence, chunk.number, chunk.written_at


def _write(pipe: IO[bytes], body: bytes) -> None:
    pipe.write(_LENGTH.pack(len(body)) + body)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """None: the other side has ended."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = pipe.read(length)
    return body if len(body) == length else None


def main() -> None:
    """The process: answers with packed segments, or with nothing to what it can't pack, until its input ends."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)  # other processes of this user must not read what jobs have printed
    os.nice(NICE)
    given, answers = sys.stdin.buffer, sys.stdout.buffer
    while (body := _read(given)) is not None:
        try:
            packed = _encode(pack([Chunk(*row) for row in _rows.decode(body)]))
        except Exception:
            packed = b""
        _write(answers, packed)
