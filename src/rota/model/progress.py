"""The progress that a job reports."""

from __future__ import annotations

import math
from datetime import datetime

import msgspec

from rota.errors import InvalidInput
from rota.model.times import Instant, aware

LONGEST_TEXT = 200
CUT_MARK = "…"


class Progress(msgspec.Struct, frozen=True, gc=False):
    fraction: float | None  # from 0 to 1; None: unknown
    text: str
    at: datetime

    @classmethod
    def told(cls, fraction: object, text: object, at: Instant) -> Progress:
        """Checks the report of a task. A long text is cut, not refused."""
        return cls(_fraction(fraction), _text(text), aware(at))


def _fraction(given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise InvalidInput("progress", given, "a number from 0 to 1, or None")
    return float(given)


def _text(given: object) -> str:
    text = str(given).encode("utf-8", "backslashreplace").decode().replace("\0", "\ufffd")
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - len(CUT_MARK)] + CUT_MARK


def read_line(line: bytes, at: Instant) -> Progress | None:
    """Reads a line of a command: `0.4 loading`, `40% loading`, or `- loading` without a fraction. None if it is
    invalid."""
    word, _, text = line.decode("utf-8", "replace").strip().partition(" ")
    try:
        fraction = None if word == "-" else float(word[:-1]) / 100 if word.endswith("%") else float(word)
    except ValueError:
        return None
    if fraction is not None and not (math.isfinite(fraction) and 0 <= fraction <= 1):
        return None
    return Progress.told(fraction, text.strip(), at)
