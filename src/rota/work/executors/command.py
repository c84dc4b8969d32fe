"""Runs commands, as children of the keeper. The exit code says how one ended: 0 success, 75 (and any other) try
again, codes the order names as fatal never again."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from rota.errors import InvalidInput
from rota.logs.shipper import Sink
from rota.model.job import Claimed, CommandSpec
from rota.model.outcome import Failed, Interrupted, Outcome, Problem, Snoozed, Succeeded
from rota.model.times import SECOND
from rota.work.attempt import TOO_LATE, Attempt, Stop
from rota.work.keeping import Child, Exit, Keeper, SpawnError, Unwanted

# The node's own environment holds secrets of the node; a command gets what programs need in order to run at all.
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
NOT_FOUND = 127
NOT_EXECUTABLE = 126
READ_SIZE = 256 << 10
SCARCITY = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESHUTDOWN)
# More than this waiting for the store, and reading pauses: the job writes at the store's pace, memory stays bounded.
LARGEST_BACKLOG = 4 << 20
RESUME = 0.05
_spec = msgspec.json.Decoder(CommandSpec)


class CommandExecutor:
    def __init__(self, keeper: Keeper, kill_grace: float, environment: Mapping[str, str]) -> None:
        self._keeper, self._kill_grace = keeper, kill_grace
        self._base = {name: environment[name] for name in INHERITED if name in environment}

    async def execute(self, attempt: Attempt) -> Outcome:
        spec = _read(attempt.claimed)
        try:
            output = _Output(attempt.sink)
        except OSError as error:
            return _not_started(SpawnError(error.errno or 0, f"no pipe for its output: {error.strerror}"))
        try:
            child = await self._spawn(spec, attempt, output)
        except SpawnError as error:
            output.close()
            return _not_started(error)
        except Unwanted:
            output.close()
            return Interrupted(TOO_LATE)
        except BaseException:
            output.close()
            raise
        output.follow()
        attempt.on_stop(lambda reason: self._stop(child, reason))
        exit = await child.wait()
        output.end()
        return _outcome(exit, spec)

    async def _spawn(self, spec: CommandSpec, attempt: Attempt, output: _Output) -> Child:
        claimed = attempt.claimed
        environment = {
            **self._base,
            **spec.env,
            "ROTA_JOB": claimed.job_id,
            "ROTA_ATTEMPT": str(claimed.number),
            "ROTA_FENCE": str(claimed.fence),
        }
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            return await self._keeper.spawn(
                spec.argv,
                cwd=spec.cwd,
                env=environment,
                stdin=nothing,
                stdout=output.writers[0],
                stderr=output.writers[1],
                unless=attempt.too_late,
            )
        finally:
            os.close(nothing)

    def _stop(self, child: Child, reason: Stop) -> None:
        """The polite word first; after the grace the whole tree is killed. A lost lease leaves no time for manners."""
        if reason is Stop.LOST:
            child.kill()
            return
        child.terminate()
        asyncio.get_running_loop().call_later(self._kill_grace, child.kill)


def _read(claimed: Claimed) -> CommandSpec:
    try:
        return _spec.decode(claimed.spec)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput("specification", claimed.spec, f"that of a command ({error})") from None


def _not_started(error: SpawnError) -> Outcome:
    """A program that isn't there won't be there in two seconds. A node that is out of processes or descriptors is not
    the job's fault: it comes back later, uncounted."""
    if error.errno in SCARCITY:
        return Snoozed(SECOND, f"the node is short of something: {error}")
    code = NOT_FOUND if error.errno == errno.ENOENT else NOT_EXECUTABLE
    return Failed(Problem("rota.SpawnError", str(error)), fatal=True, exit_code=code)


def _outcome(exit: Exit, spec: CommandSpec) -> Outcome:
    if exit.lost:
        return Failed(Problem("rota.KeeperLost", "the process above the command was killed, and the command with it"))
    if exit.signal is not None:
        name = signal.Signals(exit.signal).name if exit.signal in list(signal.Signals) else str(exit.signal)
        return Failed(Problem("rota.Signal", f"killed by {name}"), exit_code=128 + exit.signal)
    if exit.code == 0:
        return Succeeded(exit_code=0)
    problem = Problem("rota.ExitCode", f"exit code {exit.code}")
    return Failed(problem, fatal=exit.code in spec.fatal_exit_codes, exit_code=exit.code)


class _Output:
    """The pipes a command writes to, read as it writes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._readers: dict[int, str] = {}
        self.writers: list[int] = []
        try:
            for stream in ("stdout", "stderr"):
                reader, writer = os.pipe2(os.O_CLOEXEC)
                self._readers[reader] = stream
                self.writers.append(writer)
        except OSError:
            self.close()
            raise
        self._loop = asyncio.get_running_loop()

    def follow(self) -> None:
        """From here on only the command can write."""
        self._close_writers()
        for reader in self._readers:
            os.set_blocking(reader, False)
            self._loop.add_reader(reader, self._read, reader)

    def _read(self, reader: int) -> None:
        try:
            body = os.read(reader, READ_SIZE)
        except BlockingIOError:
            return
        if body:
            self._sink.write(self._readers[reader], body)
            if self._sink.backlog > LARGEST_BACKLOG:
                self._loop.remove_reader(reader)
                self._loop.call_later(RESUME, self._resume, reader)
        else:
            self._shut(reader)

    def _resume(self, reader: int) -> None:
        if reader in self._readers:
            if self._sink.backlog > LARGEST_BACKLOG:
                self._loop.call_later(RESUME, self._resume, reader)
            else:
                self._loop.add_reader(reader, self._read, reader)

    def _shut(self, reader: int) -> None:
        self._loop.remove_reader(reader)
        del self._readers[reader]
        os.close(reader)

    def end(self) -> None:
        """Reads what is left. The whole tree is gone, so all of it is in the pipes; a stranger who got hold of their
        other ends must not keep us waiting."""
        for reader in list(self._readers):
            self._loop.remove_reader(reader)
            with suppress(BlockingIOError):
                while body := os.read(reader, READ_SIZE):
                    self._sink.write(self._readers[reader], body)
            self._shut(reader)

    def close(self) -> None:
        self._close_writers()
        for reader in list(self._readers):
            os.close(reader)
        self._readers.clear()

    def _close_writers(self) -> None:
        for writer in self.writers:
            os.close(writer)
        self.writers = []
