"""`rota lock run`: runs a command of this machine while a lock is held, and ends it when the lock is lost.

The command runs in a process group of its own, so that what it starts is ended with it. On a terminal it stays in the
group of the terminal, or it could not read from it; there the terminal itself sends Ctrl-C to both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from rota import config
from rota.cli.session import Present, client_place, utf8
from rota.cli.show import complain
from rota.errors import LockLost, LockTaken
from rota.handles.lock import Lock
from rota.model.locks import lock_ttl, margin
from rota.model.times import SECOND

TAKEN, LOST = 124, 125
NOT_EXECUTABLE, NOT_FOUND = 126, 127
# Seconds from SIGTERM to SIGKILL when the lock is lost: it must be over before another gets the lock.
GRACE = 1.0


async def run_(args: argparse.Namespace) -> int:
    if not args.command:
        args.parser.error("give a command after `--`, as in: rota lock run backup -- ./backup.sh")
    grace = min(GRACE, margin(lock_ttl(args.ttl)) / SECOND / 2)
    async with Present(**client_place(args)) as app:
        try:
            async with Lock(app, utf8(args.lock, "NAME"), args.ttl, args.wait) as lock:
                return await _command(args.command, lock, grace)
        except LockTaken as taken:
            complain(str(taken))
            return TAKEN
        except LockLost as lost:
            complain(str(lost))
            return LOST


async def _command(argv: Sequence[str], lock: Lock, grace: float) -> int:
    # As the shell had it: rota's own secrets were put aside for the sake of other commands.
    environment = config.variables() | {"ROTA_LOCK": lock.name, "ROTA_LOCK_FENCE": str(lock.fence)}
    group = _Group(alone=not sys.stdin.isatty())
    with _passed_on(group):
        try:
            process = await group.start(argv, environment)
        except OSError as error:
            complain(f"{argv[0]}: {error.strerror}")
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        try:
            code = await process.wait()
        except asyncio.CancelledError:  # the lock is lost
            await group.end(process, grace)
            raise
    return code if code >= 0 else 128 - code


class _Group:
    """The command and what it starts. `alone`: in a process group of their own."""

    def __init__(self, alone: bool) -> None:
        self.alone = alone
        self._leader: int | None = None
        self._early: list[int] = []  # signals from before it was started

    async def start(self, argv: Sequence[str], environment: Mapping[str, str]) -> Process:
        group = 0 if self.alone else None
        process = await asyncio.create_subprocess_exec(*argv, env=environment, process_group=group)
        self._leader = process.pid
        for number in self._early:
            self.tell(number)
        return process

    def tell(self, number: int) -> None:
        if self._leader is None:
            self._early.append(number)
            return
        with suppress(ProcessLookupError):
            (os.killpg if self.alone else os.kill)(self._leader, number)

    async def end(self, process: Process, grace: float) -> None:
        self.tell(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await process.wait()
        self.tell(signal.SIGKILL)  # also to what the command has left
        await process.wait()


@contextmanager
def _passed_on(group: _Group) -> Iterator[None]:
    """Signals that ask us to end are the command's to follow; we end after it."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        by_terminal = number == signal.SIGINT and not group.alone
        loop.add_signal_handler(number, _nothing if by_terminal else group.tell, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _nothing(_: int) -> None: ...
