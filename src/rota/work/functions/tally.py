"""Shows a pool process whether anything was written to its output pipes.

Written bytes are still in the pipe, which the kernel says (FIONREAD), or the node has read them. The node counts its
reads in a page of memory that it shares with the process. While it reads, the count is odd: the pipe may be empty by
then, and the end of the read is not counted yet. (The kernel counts writes too, in /proc/self/io; but a hidden process
can't open that, unless it is root's.)
"""

from __future__ import annotations

import array
import fcntl
import mmap
import os
import termios
from typing import Final

COUNT: Final = "Q"  # one machine word, so that no reader sees half of it


class Tally:
    """The node's side. One thread at a time reads. It never reads the page back: the process can't mislead it."""

    def __init__(self) -> None:
        """Raises OSError."""
        self.fd = os.memfd_create("rota-tally", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.fd, mmap.PAGESIZE)
            self._page = mmap.mmap(self.fd, mmap.PAGESIZE)
        except OSError:
            os.close(self.fd)
            raise
        self._word = memoryview(self._page).cast(COUNT)
        self._count = 0

    def begin(self) -> None:
        self._word[0] = self._count + 1

    def end(self, came: int) -> None:
        if came:
            self._count += 2
        self._word[0] = self._count

    def close(self) -> None:
        if self.fd >= 0:
            self._word.release()
            self._page.close()
            os.close(self.fd)
            self.fd = -1


class Ear:
    """The process's side."""

    def __init__(self, fd: int) -> None:
        self._word = memoryview(mmap.mmap(fd, mmap.PAGESIZE, prot=mmap.PROT_READ)).cast(COUNT)
        os.close(fd)
        self._before = 0
        self._waiting = array.array("i", [0])

    def begin(self) -> None:
        self._before = self._word[0]

    def heard(self) -> bool:
        """Whether something may have been written since `begin`. Raises OSError if the pipes were closed."""
        for fd in (1, 2):  # first: bytes that have left the pipe were read, or are being read
            fcntl.ioctl(fd, termios.FIONREAD, self._waiting)
            if self._waiting[0]:
                return True
        count = self._word[0]
        return count != self._before or count % 2 == 1
