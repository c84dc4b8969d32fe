"""Lines of crontabs in the words of other crons: none is lost without a reason."""

from __future__ import annotations

import pytest

from rota.model.times import MINUTE
from rota.model.trigger.crontab import read_crontab
from rota.model.trigger.rules import Cron, Every, read_rule


@pytest.mark.parametrize(
    "rule",
    [
        "0 9 * * fri-sun",
        "0 9 * * Sat-Mon",
        "0 9 * * 5-7",
        "0 9 15W,L-3 * FRIL",
        "0 9 ? january Monday",
        "0 9 LW * ?",
    ],
)
def test_lines_that_are_taken(rule: str) -> None:
    found = read_crontab(f"{rule} x y\n")
    assert [(entry.rule, entry.command) for entry in found.entries] == [(rule, "x y")]
    assert read_rule(rule) == Cron(rule)


def test_periods_are_taken() -> None:
    found = read_crontab("@every 1h30m x y\n@every 5m\tz\n")
    assert [(entry.rule, entry.command) for entry in found.entries] == [("@every 1h30m", "x y"), ("@every 5m", "z")]
    assert read_rule(found.entries[0].rule) == Every(90 * MINUTE)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("*/90 * * * * x", "expected a step from 1 to 60; write 'every 90m' for longer periods"),
        ("0 0 ? * 2-6 x", "expected weekdays by name, such as MON-FRI"),
        ("0 0 L-31 * * x", "cron field 3 (day of month): 'L-31'"),
        ("@every 5m", "there is no command after the times"),
        ("@every soon x", "every: 'soon' is not valid"),
        ("@every", "this is neither NAME=value nor"),
    ],
)
def test_lines_that_are_not_taken(line: str, why: str) -> None:
    found = read_crontab(f"{line}\n")
    assert found.entries == []
    assert [why in untaken.why for untaken in found.untaken] == [True]
