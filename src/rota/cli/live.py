"""The progress of a job as a bar: once in `job show`, and live on a terminal, in one line of stderr that is redrawn.

The line is cleared for other output, and at the end. It never reaches a pipe.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rota.cli.show import safe, shortened
from rota.clients.jobs import POLL, JobsClient, NewsListener
from rota.errors import RotaError
from rota.model.lifecycle import State
from rota.model.outcome import Usage
from rota.model.progress import Progress
from rota.model.times import SECOND, short

WIDTH = 10
NARROWEST = 20
_CLEAR = "\r\x1b[K"


def bar(progress: Progress) -> str:
    """`[####------] 40 % loading`; without a fraction only the text."""
    if progress.fraction is None:
        return safe(progress.text)
    done = int(progress.fraction * WIDTH)
    drawn = f"[{'#' * done}{'-' * (WIDTH - done)}] {int(progress.fraction * 100)} %"
    return f"{drawn} {safe(progress.text)}".rstrip()


def used(usage: Usage) -> str:
    """`used 1.2 s of CPU, 34 MB, ran 3 s; isolated by ...`, without unknown parts."""
    parts = [
        f"{usage.cpu_time / SECOND:.1f} s of CPU" if usage.cpu_time else "",
        f"{usage.memory / 1e6:.0f} MB" if usage.memory else "",
        f"ran {short(round(usage.wall_time, -3))}" if usage.wall_time else "",
    ]
    text = ", ".join(filter(None, parts))
    apart = f"isolated by {', '.join(usage.isolation)}" if usage.isolation else ""
    return "; ".join(filter(None, [text, apart]))


class Bar:
    """The line. `wanted` is False if stderr is no terminal, or with --json."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted and sys.stderr.isatty()
        self._text = ""
        self._drawn = False
        self._in_a_line = False  # other output has begun a line, which must not be wiped

    def show(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self._clear()
            self._draw()

    @contextmanager
    def aside(self, body: bytes, on_screen: bool) -> Iterator[None]:
        """Clears the bar while the bytes are written to the same screen."""
        if on_screen:
            self._clear()
        yield
        if on_screen and body:
            self._in_a_line = not body.endswith(b"\n")
            self._draw()

    def _draw(self) -> None:
        if self._wanted and self._text and not self._in_a_line:
            self._write(_CLEAR + shortened(self._text, _room()))
            self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._write(_CLEAR)
            self._drawn = False

    def _write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()

    @contextmanager
    def of(self, client: JobsClient, job_id: str) -> Iterator[Bar]:
        """Shows the progress of the job while this is open."""
        task = asyncio.create_task(self._follow(client, job_id)) if self._wanted else None
        try:
            yield self
        finally:
            if task:
                task.cancel()
            self.show("")

    async def _follow(self, client: JobsClient, job_id: str) -> None:
        news = NewsListener(client.store)
        try:
            while True:
                with suppress(RotaError):  # the follower of the job reports the same error
                    info = await client.glance(job_id)
                    told = info.progress if info.state is State.RUNNING else None
                    self.show(bar(told) if told else "")
                await news.wait(POLL)
        finally:
            news.close()


def _room() -> int:
    """One column less than the screen: a full line would wrap."""
    return max(shutil.get_terminal_size().columns - 1, NARROWEST)
