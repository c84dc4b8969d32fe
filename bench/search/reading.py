"""The corpus as rows, a row per line, for rivals that keep it so; and what is known of it once it was read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from bench.search.corpus import TASKS, Attempt, attempts
from rota.model.times import HOUR, Instant

BATCH = 10_000  # rows of one commit
TASK = TASKS[0]  # that the expression is limited to
EXPRESSION = "timed out after [0-9]{5} ms"  # the same to grep, Python and PostgreSQL

Kept = tuple[int, str, str, int]  # an attempt: number, owner, task, start
Row = tuple[int, str, Instant, str]  # a line: number of its attempt, stream, time, text


class Batch(NamedTuple):
    attempts: list[Kept]
    rows: list[Row]


class Reading:
    """Reads the corpus once."""

    def __init__(self, lines: int) -> None:
        self.lines, self.size = lines, 0  # in bytes
        self._of_task: Counter[Instant] = Counter()  # lines of the task by the hour
        self._matches: Counter[Instant] = Counter()
        self._expression = re.compile(EXPRESSION)

    def batches(self) -> Iterator[Batch]:
        batch = Batch([], [])
        for number, attempt in enumerate(attempts(self.lines), 1):
            batch.attempts.append((number, attempt.owner, attempt.task, attempt.started_at))
            batch.rows.extend(self._rows(number, attempt))
            if len(batch.rows) >= BATCH:
                yield batch
                batch = Batch([], [])
        if batch.attempts:
            yield batch

    def _rows(self, number: int, attempt: Attempt) -> Iterator[Row]:
        ours = attempt.task == TASK
        for stream, at, body in attempt.pieces:
            self.size += len(body)
            for text in body[:-1].decode(errors="replace").split("\n"):
                if ours:
                    self._count(at - at % HOUR, text)
                yield number, stream, at, text

    def _count(self, hour: Instant, text: str) -> None:
        self._of_task[hour] += 1
        self._matches[hour] += self._expression.search(text) is not None

    @property
    def hour(self) -> Instant:
        """In which the task printed most."""
        return self._of_task.most_common(1)[0][0]

    @property
    def matches(self) -> int:
        """Of the expression in the task's lines of that hour."""
        return self._matches[self.hour]
