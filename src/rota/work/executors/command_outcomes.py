"""Turns the end of a command into an outcome."""

from __future__ import annotations

import errno
import signal

from rota.model.job import CommandSpec
from rota.model.outcome import Crashed, Failed, Outcome, Problem, Snoozed, Succeeded
from rota.model.resources import Resources, size_text
from rota.model.times import SECOND, Duration, short
from rota.work.keeper.client import Exit, SpawnError
from rota.work.keeper.report import signal_name

NOT_FOUND = 127
NOT_EXECUTABLE = 126
BY_SIGNAL = 128  # plus the signal's number: the exit code of shells for a command ended by a signal
SCARCITY = (
    errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESHUTDOWN, errno.ENOSPC, errno.EDQUOT,
)  # fmt: skip


def not_started(error: SpawnError) -> Outcome:
    """A missing program is fatal: a retry would not find it. A node without free processes or descriptors is not the
    job's fault: the job comes back later, uncounted."""
    if error.errno in SCARCITY:
        return Snoozed(SECOND, f"the node is short of something: {error}")
    code = NOT_FOUND if error.errno == errno.ENOENT else NOT_EXECUTABLE
    return Failed(Problem("rota.SpawnError", str(error)), fatal=True, exit_code=code)


def outcome(exit: Exit, spec: CommandSpec, bounds: Resources) -> Outcome:
    if exit.lost:  # a crash, as of a function's process: the command did not fail
        return Crashed(Problem("rota.KeeperLost", "the process above the command was killed, and the command with it"))
    code = exit.code if exit.code is not None else BY_SIGNAL + (exit.signal or 0)
    if code == 0:
        return Succeeded(exit_code=0)
    if bound := _bound(exit, code, bounds):
        return _failed(*bound, code)
    if exit.signal is not None:
        return _failed("Signal", f"killed by {signal_name(exit.signal)}", code)
    return _failed("ExitCode", f"exit code {code}", code, fatal=code in spec.fatal_exit_codes)


def _failed(kind: str, message: str, code: int | None = None, fatal: bool = False) -> Failed:
    problem = Problem(f"rota.{kind}", message)
    return Failed(problem, (problem.type, kind), fatal=fatal, exit_code=code)


def _bound(exit: Exit, code: int, bounds: Resources) -> tuple[str, str] | None:
    """The bound that ended the command, if known by a signal that nothing else sends, to the command or to a program
    that a shell ran. A program that handles the refused call itself is not recognised."""
    if exit.out_of_memory:
        most = "what it may have" if bounds.memory is None else size_text(bounds.memory)
        return "OutOfMemory", f"it needed more memory than {most}"
    if bounds.cpu is not None and _out_of_time(exit, code, bounds.cpu):
        return "CpuLimit", f"it used more CPU time than {short(bounds.cpu)}"
    if bounds.file_size is not None and code == BY_SIGNAL + signal.SIGXFSZ:
        return "FileSizeLimit", f"it wrote a file larger than {size_text(bounds.file_size)}"
    return None


def _out_of_time(exit: Exit, code: int, most: Duration) -> bool:
    """Whether the CPU time is used up. A command that ignores the signal is killed a little later."""
    return code == BY_SIGNAL + signal.SIGXCPU or (exit.signal == signal.SIGKILL and exit.cpu_seconds >= most / SECOND)
