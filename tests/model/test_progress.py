"""How far a job says it is: what is kept, what is cut, and what makes no sense."""

from __future__ import annotations

import math

import msgspec
import pytest

from rota.errors import InvalidInput
from rota.model.progress import LONGEST_TEXT, Progress, read_line
from rota.model.times import aware
from rota.views.jobs import ProgressView


@pytest.mark.parametrize(
    ("line", "fraction", "text"),
    [
        (b"0.4 loading\n", 0.4, "loading"),
        (b"40% loading", 0.4, "loading"),
        (b"- loading", None, "loading"),
        (b"1", 1.0, ""),
        (b"0 ", 0.0, ""),
        (b"100%", 1.0, ""),
        (b"  0.5   two  words ", 0.5, "two  words"),
        ("0.5 grün".encode(), 0.5, "grün"),
        (b"0.5 \xff", 0.5, "\ufffd"),
    ],
)
def test_lines_of_commands(line: bytes, fraction: float | None, text: str) -> None:
    assert read_line(line, 7) == Progress(fraction, text, aware(7))


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"half way", b"1.1", b"-0.1", b"101%", b"nan", b"inf", b"nan%", b"%", b"loading 0.4"]
)
def test_lines_that_make_no_sense_are_no_progress(line: bytes) -> None:
    assert read_line(line, 7) is None


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan, math.inf, True, "0.4", [0.4]])
def test_a_task_is_told_that_its_fraction_makes_no_sense(fraction: object) -> None:
    with pytest.raises(InvalidInput, match="0 to 1"):
        Progress.told(fraction, "", 0)


def test_whole_numbers_and_none_are_fractions_too() -> None:
    assert [Progress.told(given, "", 0).fraction for given in (0, 1, None)] == [0.0, 1.0, None]


def test_texts_of_any_kind_and_length_can_be_kept() -> None:
    assert Progress.told(None, "x" * LONGEST_TEXT, 0).text == "x" * LONGEST_TEXT
    cut = Progress.told(None, "x" * (LONGEST_TEXT + 1), 0).text
    assert (len(cut), cut[-1]) == (LONGEST_TEXT, "…")
    assert Progress.told(None, 42, 0).text == "42"
    assert Progress.told(None, "a\0b\ud800", 0).text == "a\ufffdb\\ud800"


def test_a_report_is_shown_with_its_time() -> None:
    assert msgspec.to_builtins(ProgressView.of(Progress(0.5, "x", aware(0)))) == {
        "fraction": 0.5,
        "text": "x",
        "at": "1970-01-01T00:00:00.000000+00:00",
    }
