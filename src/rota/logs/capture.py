"""Captures prints and log records of functions, and passes them to their attempt.

A context variable names the attempt; it follows `await` and is set in the threads that rota starts. Output outside of
any attempt goes to the original stream.
"""

from __future__ import annotations

import contextvars
import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO


class OutputWriter(Protocol):
    """Takes the output of one attempt (`Sink`, or the way to it from another process)."""

    def write(self, stream: str, body: bytes) -> None: ...


CURRENT: contextvars.ContextVar[OutputWriter | None] = contextvars.ContextVar("rota_sink", default=None)


class _Stream(io.TextIOBase):
    """Stands in for sys.stdout or sys.stderr."""

    def __init__(self, name: str, original: TextIO) -> None:
        self._name, self._original = name, original

    def write(self, text: str) -> int:
        sink = CURRENT.get()
        if sink is None:
            return self._original.write(text)
        sink.write(self._name, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        if CURRENT.get() is None:
            self._original.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return CURRENT.get() is None and self._original.isatty()

    def fileno(self) -> int:
        return self._original.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


class Handler(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        sink = CURRENT.get()
        if sink is not None:
            sink.write("log", self.line(record))

    def line(self, record: logging.LogRecord) -> bytes:
        try:
            text = self.format(record)
        except Exception as error:  # a log call with wrong arguments must not fail the job
            text = f"{record.levelname} {record.name}: {record.msg!r} (can't be formatted: {error})"
        return (text + "\n").encode("utf-8", "backslashreplace")


def listen_to_logs(handler: Handler) -> None:
    root = logging.getLogger()
    if root.level == logging.WARNING:  # the default level: people expect "info" in a job's log
        root.setLevel(logging.INFO)
    root.addHandler(handler)


@contextmanager
def captured() -> Iterator[None]:
    """Captures prints and log records of attempts while this is open."""
    out, err = sys.stdout, sys.stderr
    root = logging.getLogger()
    level, handler = root.level, Handler()
    listen_to_logs(handler)
    sys.stdout, sys.stderr = _Stream("stdout", out), _Stream("stderr", err)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
        root.removeHandler(handler)
        root.setLevel(level)
