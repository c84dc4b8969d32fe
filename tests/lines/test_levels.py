"""The level of a line, in the ways in which programs say it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.lines.levels import NAMES, hint, level_of, words_of_levels
from rota.lines.words import words_of
from rota.model.query.fields import LEVELS


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("INFO mail.sender: sent", "info"),
        ("WARNING root: slow", "warning"),
        ("CRITICAL a.b: ERROR in it", "critical"),
        ("Level 25 a: b", None),
        ("INFO", None),
        ("  File 'x.py', line 3: ERROR here", None),
        ("", None),
    ],
)
def test_records_of_logging_begin_with_it(line: str, level: str | None) -> None:
    assert level_of(line.encode(), "log") == level


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("2027-01-15 08:00:00,123 - app - ERROR - it broke", "error"),
        ("2027-01-15T08:00:00Z WARN  [pool-1] slow", "warning"),
        ("[2027-01-15 08:00:00] production.NOTICE: hello", "info"),
        ("[error] 12#0: upstream", "error"),
        ("<warning> disk", "warning"),
        ("(debug) x", "debug"),
        ("error: could not compile", "error"),
        ("Warning: deprecated", "warning"),
        ("FATAL: password authentication failed", "critical"),
        ("08:00:00.1 EMERG kernel", "critical"),
        ('{"time":"t","level":"info","msg":"ERROR in a message"}', "info"),
        ('{"level": "Error"}', "error"),
        ('{"level":30,"time":1}', "info"),
        ('{"level":60}', "critical"),
        ('{"level":"information"}', "info"),
        ('{"severity":"CRITICAL"}', "critical"),
        ('{"log.level":"warn"}', "warning"),
        ("{'levelname': 'DEBUG'}", "debug"),
        ("ts=1 level=warn msg=x", "warning"),
        ("level=error", "error"),
        ('time="t" level="fatal" msg="INFO"', "critical"),
        ("lvl=dbug msg=x", None),
        ("level=300", None),
        ("sublevel=error", None),
        ("an error occurred", None),
        ("no INFORMATIONAL text", None),
        ("ERRORS: 0", None),
        ("äERROR", None),
        ("x" * 100 + " ERROR", None),
        ("x" * 2000 + " level=error", None),
        ("", None),
        ("\0\udcff", None),
    ],
)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_programs_say_it_in_many_ways(line: str, level: str | None, stream: str) -> None:
    assert level_of(line.encode(errors="surrogateescape"), stream) == level


pieces = st.sampled_from(
    ["level", "lvl", "severity", ":", "=", '"', "'", " ", "{", "[", "]", "log.level", "ä", "\xff", "x", "_", ".", "-"]
    + [name for names in NAMES.values() for name in names]
    + [name.upper() for names in NAMES.values() for name in names]
)


@given(st.lists(pieces, max_size=8).map("".join), st.sampled_from(["log", "stdout"]))
def test_a_line_of_a_level_has_a_name_of_it_and_its_hint(line: str, stream: str) -> None:
    """So a search by level may pass over lines and segments without."""
    level = level_of(line.encode(), stream)
    if level is not None:
        for group in words_of_levels([level]):
            assert words_of(line.encode()) & {word.encode() for word in group}
        assert hint((level,)).search(line.encode()) is not None
        assert hint(LEVELS).search(line.encode()) is not None
