"""`rota stats`: a table by queue, the course, and the same as JSON."""

from __future__ import annotations

import pytest

from rota.cli.stats import sparkline
from tests.cli.program import Rota, claim, refused


def test_a_table_by_queue_and_the_course(rota: Rota) -> None:
    for words in ([], [], ["--queue", "mail"], ["--in", "1h"]):
        rota.ok("submit", *words, "--", "true")
    claim(rota, count=1)
    lines = rota.ok("stats").splitlines()
    assert lines[0].split()[:7] == ["QUEUE", "READY", "RUNNING", "HELD", "SCHEDULED", "BLOCKED", "OLDEST"]
    assert [line.split()[:6] for line in lines[1:4]] == [
        ["default", "1", "1", "0", "1", "0"], ["mail", "1", "0", "0", "0", "0"], ["all", "2", "1", "0", "1", "0"],
    ]  # fmt: skip
    assert any(line.startswith("ordered") and line.endswith("  4") for line in lines)


def test_the_same_as_json(rota: Rota) -> None:
    rota.ok("submit", "--", "true")
    wire = rota.json("stats", "--since", "2h", "--step", "15m", "--queue", "default")
    assert wire["statistics"]["states"]["ready"] == 1
    assert wire["statistics"]["queues"][0]["rates"]["ordered"]["count"] == 1
    assert wire["history"]["step"] == 900.0
    assert sum(one["ordered"] for one in wire["history"]["buckets"]) == 1
    assert rota.json("stats", "--queue", "mail")["statistics"]["queues"] == []


def test_windows_that_make_no_sense(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    rota.ok("submit", "--", "true")
    assert "since" in refused(rota, capsys, "stats", "--since", "never")
    assert "step" in refused(rota, capsys, "stats", "--since", "1h", "--step", "7s")


def test_a_sparkline() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▂▅█"
    assert sparkline([0, 0]) == "  "
    assert sparkline([]) == ""
