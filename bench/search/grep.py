"""grep over the raw lines in one file.

It knows neither tasks nor times, so the lines of the one task that is asked for lie in files of an hour as well. Words
are looked for in the whole file.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.search.reading import Batch
from rota.model.times import HOUR, Instant

# Bytes are compared as bytes: many times as fast as with a locale, and some lines are not UTF-8.
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.environ["PATH"]}
GREP = ("grep", "--text")


class Grep:
    name = "grep"

    def __init__(self, path: Path, task: str) -> None:
        self._path, self._task = path, task
        self._of_task: set[int] = set()
        self._file = path.open("wb")

    def add(self, batch: Batch) -> None:
        for _, _, _, text in batch.rows:
            self._file.write(text.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._sort(batch)

    def _sort(self, batch: Batch) -> None:
        self._of_task.update(number for number, _, task, _ in batch.attempts if task == self._task)
        hours: dict[Instant, list[str]] = {}
        for number, _, at, text in batch.rows:
            if number in self._of_task:
                hours.setdefault(at - at % HOUR, []).append(text)
        for hour, texts in hours.items():
            with self._hour(hour).open("ab") as file:
                file.writelines(text.encode() + b"\n" for text in texts)

    def _hour(self, hour: Instant) -> Path:
        return self._path.with_name(f"{self._task}-{hour}")

    def settle(self) -> None:
        """Nothing: every batch is on the disk."""

    def sizes(self) -> Mapping[str, int]:
        return {"file": self._path.stat().st_size}

    def word(self, word: str) -> int:
        return _lines(*GREP, "-F", "-w", word, self._path)

    def newest(self, word: str, count: int) -> int:
        with subprocess.Popen(["tac", self._path], stdout=subprocess.PIPE) as backwards:
            found = _lines(*GREP, "-F", "-w", "-m", str(count), word, stdin=backwards)
            backwards.kill()
        return found

    def phrase(self, words: str) -> int:
        return _lines(*GREP, "-F", words, self._path)

    def expression(self, expression: str, task: str, begin: Instant, end: Instant) -> int:
        return _lines(*GREP, "-E", expression, self._hour(begin))

    def anywhere(self, expression: str) -> int:
        return _lines(*GREP, "-E", expression, self._path)

    def close(self) -> None:
        self._file.close()


def _lines(*command: str | Path, stdin: subprocess.Popen[bytes] | None = None) -> int:
    """Of its output, which must be read: to the null device grep would write nothing and stop early."""
    source = stdin.stdout if stdin else subprocess.DEVNULL
    done = subprocess.run(command, env=ENVIRONMENT, stdin=source, stdout=subprocess.PIPE, check=False)
    if done.returncode > 1:  # 1 says that nothing was found
        raise RuntimeError(f"{command[0]} failed")
    return done.stdout.count(b"\n")
