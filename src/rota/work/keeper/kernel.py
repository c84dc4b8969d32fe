"""System calls that keeper, wardens and function processes use."""

import ctypes
import os
import select
import time

from .lean import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if LIBC.prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def set_name(name: bytes) -> None:
    """Sets the name in ps and top, to tell keeper and wardens apart."""
    LIBC.prctl(PR_SET_NAME, ctypes.c_char_p(name), None, None, None)


def hide() -> None:
    """Hides our memory and descriptors in /proc: commands may run as the same user."""
    prctl(PR_SET_DUMPABLE, 0)


def close_all_but(keep: list[int]) -> None:
    start = 3
    for fd in sorted(keep):
        if start < fd:  # closerange(0, 0) closes everything (Python 3.11)
            os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


def attempt(call: "Callable[..., object]", *arguments: object) -> None:
    """Ignores errors of signals and last messages: the receiver may just have ended. Callers check important results
    later."""
    try:
        call(*arguments)
    except OSError:
        pass


class SignalPipe:
    """A file descriptor that is readable when a child has ended (or, for a warden, its parent)."""

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self.poll = select.poll()
        self.poll.register(self.fd, select.POLLIN)

    def silence(self) -> None:
        attempt(os.read, self.fd, 4096)

    def close(self) -> None:
        """In a fork. From Python 3.12 on, asyncio has reset the wake-up descriptor there, so it can't be asked for."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.close(self.fd)
        os.close(self._writer)

    def await_ring(self, seconds: float) -> None:
        self.poll.poll(seconds * 1000)
        self.silence()
