"""`rota job logs`: output of attempts, as bytes in a pipe, without control characters on a terminal."""

from __future__ import annotations

import argparse
import codecs
import re
import sys
from contextlib import nullcontext
from typing import Protocol

from rota.cli.live import Bar
from rota.cli.session import existing
from rota.cli.show import json_line, on_terminal
from rota.cli.waiting import hinting
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput, NotFound
from rota.model.times import iso
from rota.store.values import CUT, Chunk

STREAMS = ("stdout", "stderr", "log")  # the mark of a cut belongs to each
Voice = tuple[int, str]  # fence and stream
# Of all control sequences, a terminal gets only colours, newlines, tabs and carriage returns.
_ACTS = re.compile(
    r"(\x1b\[[0-9;:]{0,64}m)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")


def check_stream(given: str | None) -> None:
    if given not in (None, *STREAMS):
        raise InvalidInput("--stream", given, f"one of {', '.join(STREAMS)}")


def harmless(text: str) -> tuple[str, bool]:
    """The text for a terminal, and whether colours are left in it."""
    coloured = False

    def shown(found: re.Match[str]) -> str:
        nonlocal coloured
        coloured = coloured or found[1] is not None
        return found[1] or found[0].encode("unicode_escape").decode()

    return _ACTS.sub(shown, text), coloured


async def logs_(args: argparse.Namespace) -> int:
    check_stream(args.stream)
    async with existing(args) as client:
        job_id = await client.resolve(args.id)
        numbers = _Numbers(client, job_id)
        if args.attempt and not args.follow and not await numbers.exists(args.attempt):
            raise NotFound(f"attempt {args.attempt} of job", job_id)
        writer = _writer(args)
        line = Bar(args.follow and not args.json)
        try:
            with hinting(client, job_id) if args.follow else nullcontext(), line.of(client, job_id):
                async for chunk in client.output(job_id, args.follow):
                    number = await numbers.of(chunk.fence)
                    if args.attempt in (None, number) and (args.stream is None or chunk.stream in (args.stream, CUT)):
                        with line.aside(chunk.body, on_terminal()):
                            writer.write(chunk, number)
        finally:
            writer.close()
    return 0


class _Numbers:
    """Attempts by their fences. People count attempts, output is kept by fence."""

    def __init__(self, client: JobsClient, job_id: str) -> None:
        self._client, self._job_id = client, job_id
        self._known: dict[int, int] = {}

    async def of(self, fence: int) -> int:
        if fence not in self._known:
            await self._look()
        return self._known.get(fence, 0)

    async def exists(self, number: int) -> bool:
        await self._look()
        return number in self._known.values()

    async def _look(self) -> None:
        info = await self._client.get(self._job_id)
        self._known = {attempt.fence: attempt.number for attempt in info.attempts}


class _Writer(Protocol):
    def write(self, chunk: Chunk, number: int) -> None: ...

    def close(self) -> None: ...


def _writer(args: argparse.Namespace) -> _Writer:
    if args.json:
        return _Json()
    target: _Target = _Terminal() if on_terminal() else _Pipe()
    return _Stamped(target) if args.timestamps else _Plain(target)


class _Target(Protocol):
    def put(self, body: bytes) -> None: ...

    def close(self) -> None: ...


class _Pipe:
    def put(self, body: bytes) -> None:
        sys.stdout.buffer.write(body)
        sys.stdout.flush()

    def close(self) -> None:
        pass


class _Terminal:
    """A control sequence may be split between two chunks, so a possible beginning of one waits for the next chunk."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._coloured = False

    def put(self, body: bytes) -> None:
        text = self._rest + self._decoder.decode(body)
        cut = _UNFINISHED.search(text)
        self._rest = text[cut.start() :] if cut else ""
        self._print(text[: cut.start()] if cut else text)

    def close(self) -> None:
        self._print(self._rest + self._decoder.decode(b"", final=True))
        if self._coloured:
            self._print("\x1b[0m")

    def _print(self, text: str) -> None:
        shown, coloured = harmless(text)
        self._coloured = self._coloured or coloured
        sys.stdout.write(shown)
        sys.stdout.flush()


class _Plain:
    def __init__(self, target: _Target) -> None:
        self._target = target

    def write(self, chunk: Chunk, number: int) -> None:
        self._target.put(chunk.body)

    def close(self) -> None:
        self._target.close()


class _Stamped:
    """Whole lines, each with the time of its beginning and its stream."""

    def __init__(self, target: _Target) -> None:
        self._target = target
        self._begun: dict[Voice, tuple[bytes, bytes]] = {}  # stamp, and the beginning of a line

    def write(self, chunk: Chunk, number: int) -> None:
        if chunk.stream == CUT:
            self._end_lines()  # the chunk ends another line
        voice = (chunk.fence, chunk.stream)
        fresh = f"{iso(chunk.at)} {chunk.stream:6} ".encode()
        stamp, begun = self._begun.pop(voice, (fresh, b""))
        body = chunk.body.strip(b"\n") + b"\n" if chunk.stream == CUT else chunk.body
        *lines, rest = (begun + body).split(b"\n")
        for line in lines:
            self._target.put(stamp + line + b"\n")
            stamp = fresh
        if rest:
            self._begun[voice] = stamp, rest

    def close(self) -> None:
        self._end_lines()
        self._target.close()

    def _end_lines(self) -> None:
        for stamp, rest in self._begun.values():
            self._target.put(stamp + rest + b"\n")
        self._begun.clear()


class _Json:
    """A line per chunk. Characters that were split between chunks are joined."""

    def __init__(self) -> None:
        self._decoders: dict[Voice, codecs.IncrementalDecoder] = {}
        self._last: dict[Voice, tuple[Chunk, int]] = {}

    def write(self, chunk: Chunk, number: int) -> None:
        voice = (chunk.fence, chunk.stream)
        if voice not in self._decoders:
            self._decoders[voice] = codecs.getincrementaldecoder("utf-8")("replace")
        self._last[voice] = chunk, number
        self._line(chunk, number, self._decoders[voice].decode(chunk.body))

    def close(self) -> None:
        for voice, (chunk, number) in self._last.items():
            self._line(chunk, number, self._decoders[voice].decode(b"", final=True))

    def _line(self, chunk: Chunk, number: int, text: str) -> None:
        if text:
            line = {"at": iso(chunk.at), "attempt": number, "fence": chunk.fence, "stream": chunk.stream, "text": text}
            json_line(line)
