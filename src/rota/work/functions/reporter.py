"""Carries the messages of a task's context from a function process to the node."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from rota.model.progress import Progress
from rota.work.functions.wire import ProgressReport


class Speaker(Protocol):
    """The channel of a process to the node. All methods may be called from any thread."""

    def write(self, key: int, stream: str, body: bytes) -> None: ...

    def progress(self, report: ProgressReport) -> None: ...

    def save(self, key: int, body: str) -> Future[None]: ...

    def mask(self, key: int, values: Sequence[str]) -> None: ...


class ChannelReporter:
    def __init__(self, speaker: Speaker, key: int) -> None:
        self._speaker, self._key = speaker, key

    def write(self, stream: str, body: bytes) -> None:
        self._speaker.write(self._key, stream, body)

    def log(self, line: str) -> None:
        self.write("log", (line + "\n").encode("utf-8", "backslashreplace"))

    def progress(self, fraction: float | None, text: str) -> None:
        told = Progress.told(fraction, text, 0)
        self._speaker.progress(ProgressReport(self._key, told.fraction, told.text))

    def save(self, body: str) -> Future[None]:
        return self._speaker.save(self._key, body)

    def mask(self, values: Sequence[str]) -> None:
        self._speaker.mask(self._key, values)
