"""Masks the secrets of an attempt in its output, before anything is stored, spooled or echoed.

A secret may come in pieces: over several writes, and cut by the pipe at any byte. So the end of each stream that may be
the beginning of a secret is held back until the next write shows what it is, or the attempt ends. That is less than the
longest secret, and nothing of ordinary lines. Streams are apart: a secret that a program writes half to its stdout and
half to its stderr is not found.
"""

from __future__ import annotations

import threading

from rota.logs.capture import OutputWriter
from rota.model.http import HIDDEN
from rota.model.secrets import Mask, united

_MASK = HIDDEN.encode()


class MaskedStream:
    """Replaces secrets in one stream of bytes: the same as `Mask.masked` of the whole, whatever pieces it comes in.

    `_held` is the end that may be the beginning of a secret; its first `_covered` bytes belong to a secret that was
    replaced already, but another one may begin among them."""

    __slots__ = ("_covered", "_held", "_mask")

    def __init__(self, mask: Mask) -> None:
        self._mask, self._held, self._covered = mask, b"", 0

    @property
    def held(self) -> int:
        return len(self._held)

    def feed(self, body: bytes) -> bytes:
        body = self._held + body if self._held else body
        return self._replaced(body, self._mask.beginning(body))

    def end(self) -> bytes:
        """The rest: it was no secret."""
        return self._replaced(self._held, len(self._held))

    def _replaced(self, body: bytes, upto: int) -> bytes:
        """Passes on the first `upto` bytes, and holds the others."""
        spans = self._mask.spans(body)
        if self._covered:
            spans = united([(0, self._covered), *spans])
        elif not spans:
            self._held = body[upto:]
            return body[:upto] if upto < len(body) else body
        parts, end, covered = [], 0, 0
        for start, stop in spans:
            told = start == 0 and self._covered > 0
            if start >= upto and not told:
                break
            if not told:
                parts += [body[end:start], _MASK]
            end, covered = stop, max(0, stop - upto)
        parts.append(body[end:upto])
        self._held, self._covered = body[upto:], covered
        return b"".join(parts)


class MaskedOutput:
    """Stands before the sink of an attempt. `write` may be called from any thread, as that of the sink."""

    def __init__(self, sink: OutputWriter, mask: Mask) -> None:
        self._sink, self.mask = sink, mask
        self._streams: dict[str, MaskedStream] = {}
        self._lock = threading.Lock()

    def write(self, stream: str, body: bytes) -> None:
        if not self.mask.patterns and not self._streams:
            self._sink.write(stream, body)
            return
        with self._lock:
            if (known := self._streams.get(stream)) is None:
                known = self._streams[stream] = MaskedStream(self.mask)
            if passed := known.feed(body):
                self._sink.write(stream, passed)

    def end(self) -> None:
        """The attempt is over: passes on what was held back."""
        with self._lock:
            for stream, known in self._streams.items():
                if rest := known.end():
                    self._sink.write(stream, rest)
