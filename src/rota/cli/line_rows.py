"""Lines of the output of many jobs: in front of each its time, task, job and stream.

A pipe gets the bytes of each line. On a terminal, control characters are shown as their escapes, but for colours.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterable

from rota.cli.logs import harmless
from rota.cli.show import json_line, on_terminal, safe
from rota.model.times import iso
from rota.store.found_lines import FoundLine
from rota.store.values import CUT
from rota.views.found_lines import FoundLineView

# A part of an id that is given as `id:...`: its end, which differs more than its beginning.
SHORT = 8
_COLOURS = (32, 33, 34, 35, 36, 92, 93, 94, 95, 96)  # of tasks on a terminal; red is for stderr
_RED, _FAINT, _PLAIN = "\x1b[31m", "\x1b[2m", "\x1b[0m"


class LineRows:
    """Prints lines as `args` says: `json`, `timestamps`."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._json, self._whole_times = args.json, args.timestamps
        self._on_screen = on_terminal()

    def print(self, lines: Iterable[FoundLine]) -> None:
        for line in lines:
            if self._json:
                json_line(FoundLineView.of(line))
            elif self._on_screen:
                sys.stdout.write(self._drawn(line))
            else:
                sys.stdout.buffer.write(f"{self._head(line)} ".encode() + line.body + b"\n")
        sys.stdout.flush()

    def _time(self, line: FoundLine) -> str:
        text = iso(line.at)
        return text if self._whole_times else text[11:23]

    def _head(self, line: FoundLine) -> str:
        return f"{self._time(line)} {safe(line.task)} {line.job_id[-SHORT:]} {line.stream:6}"

    def _drawn(self, line: FoundLine) -> str:
        task, stream = f"\x1b[{_colour(line.task)}m{safe(line.task)}{_PLAIN}", f"{line.stream:6}"
        if line.stream in ("stderr", CUT):
            stream = f"{_RED}{stream}{_PLAIN}"
        text, coloured = harmless(line.text)
        head = f"{_FAINT}{self._time(line)}{_PLAIN} {task} {_FAINT}{line.job_id[-SHORT:]}{_PLAIN} {stream}"
        return f"{head} {text}{_PLAIN if coloured else ''}\n"


def _colour(task: str) -> int:
    """The same in each call."""
    return _COLOURS[zlib.crc32(task.encode()) % len(_COLOURS)]
