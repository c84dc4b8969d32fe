"""Lines of the output of many jobs: in front of each its time, task, job and stream.

A pipe gets the bytes of each line. On a terminal, control characters are shown as their escapes, but for colours.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable

from rota.cli.logs import harmless
from rota.cli.show import json_line, on_terminal, safe
from rota.model.times import iso
from rota.store.found_lines import ContextLine, FoundLine
from rota.store.values import CUT
from rota.views.found_lines import FoundLineView

# A part of an id that is given as `id:...`: its end, which differs more than its beginning.
SHORT = 8
_COLOURS = (32, 33, 34, 35, 36, 92, 93, 94, 95, 96)  # of tasks on a terminal; red is for stderr
_RED, _FAINT, _PLAIN = "\x1b[31m", "\x1b[2m", "\x1b[0m"


class LineRows:
    """Prints lines. `context`: lines of context may be around them; as grep does it, these have a `-`, and `--` stands
    between the groups."""

    def __init__(self, json: bool, whole_times: bool, context: bool = False) -> None:
        self._json, self._whole_times, self._context = json, whole_times, context
        self._on_screen = on_terminal()
        self._begun = False

    def print(self, lines: Iterable[FoundLine]) -> None:
        for line in lines:
            if self._json:
                json_line(FoundLineView.of(line))
                continue
            if self._context and self._begun:
                self._write(b"--\n")
            self._begun = True
            for one in (*line.before, line, *line.after):
                self._write(self._drawn(line, one) if self._on_screen else self._plain(line, one))
        sys.stdout.flush()

    def _write(self, row: bytes) -> None:
        if self._on_screen:
            sys.stdout.write(row.decode())
        else:
            sys.stdout.buffer.write(row)

    def _time(self, line: ContextLine) -> str:
        text = iso(line.at)
        return text if self._whole_times else text[11:23]

    def _mark(self, found: FoundLine, line: ContextLine) -> str:
        return "" if not self._context else ": " if line is found else "- "

    def _plain(self, found: FoundLine, line: ContextLine) -> bytes:
        head = f"{self._time(line)} {safe(found.task)} {found.job_id[-SHORT:]} {line.stream:6} "
        return f"{head}{self._mark(found, line)}".encode() + line.body + f"{_more(line)}\n".encode()

    def _drawn(self, found: FoundLine, line: ContextLine) -> bytes:
        task, stream = f"\x1b[{_colour(found.task)}m{safe(found.task)}{_PLAIN}", f"{line.stream:6}"
        if line.stream in ("stderr", CUT):
            stream = f"{_RED}{stream}{_PLAIN}"
        text, coloured = harmless(line.text)
        head = f"{_FAINT}{self._time(line)}{_PLAIN} {task} {_FAINT}{found.job_id[-SHORT:]}{_PLAIN} {stream}"
        return f"{head} {self._mark(found, line)}{text}{_PLAIN if coloured else ''}{_more(line)}\n".encode()


def _more(line: ContextLine) -> str:
    return f" [rota: {line.more:,} more bytes]" if line.more else ""


def _colour(task: str) -> int:
    """The same in each call."""
    return _COLOURS[zlib.crc32(task.encode()) % len(_COLOURS)]
