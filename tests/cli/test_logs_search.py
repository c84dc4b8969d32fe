"""`rota logs search`: rows for people, pages, JSON, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.program import LONG, Rota, on_terminal, refused

PRINTS = (
    r"for n in 1 2 3 4 5; do printf 'line %s\n' $n; done; sleep 0.1;"
    r" printf 'ERROR \033[31mred\033[2J refused\377\n' >&2; sleep 0.1; echo end"
)


@pytest.fixture(scope="module")
def job(served: Rota) -> str:
    """It has ended."""
    job = served.ok("submit", "--name", "printer", "--", "sh", "-c", PRINTS)
    served.ok("job", "wait", job)
    return job


def test_rows_with_time_task_job_and_stream(served: Rota, job: str) -> None:
    out = served.ok("logs", "search", "line 3")
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT[0-9:.]{{15}}\+00:00 printer {job[-8:]} stdout line 3", out)
    assert served.ok("logs", "search", "line", "--limit", "2", "--stream", "stderr") == ""
    shown = [row[-6:] for row in served.ok("logs", "search", "line", "task:print*").splitlines()]
    assert shown == ["line 5", "line 4", "line 3", "line 2", "line 1"]


def test_context_is_marked_and_divided(served: Rota, job: str) -> None:
    rows = served.ok("logs", "search", '"line 2" OR "line 4"', "-C", "1").splitlines()
    assert [row if row == "--" else row[-8:] for row in rows] == [
        "- line 3", ": line 4", "- line 5", "--", "- line 1", ": line 2", "- line 3",
    ]  # fmt: skip
    rows = served.ok("logs", "search", "line 4", "-B", "2", "-A", "0").splitlines()
    assert [row[-8:] for row in rows] == ["- line 2", "- line 3", ": line 4"]


def test_bytes_stay_as_they_are_in_a_pipe(served: Rota, job: str) -> None:
    search = served.start("logs", "search", "refus*")
    out, _ = search.process.communicate(timeout=LONG)
    assert out.endswith(b"stderr ERROR \x1b[31mred\x1b[2J refused\xff\n")


@pytest.mark.slow
def test_a_terminal_gets_no_commands_and_the_place_to_go_on(
    served: Rota, job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = on_terminal(served.folder, "logs", "search", "refus*", "--limit", "1")
    assert code == 0
    assert "\x1b[2J" not in shown
    assert "\\x1b[2J refused" in shown
    code, shown = on_terminal(served.folder, "logs", "search", "line", "--limit", "3")
    place = re.findall(r"--after (\S+)\)", shown)[0]
    rest = served.ok("logs", "search", "line", "--after", place).splitlines()
    assert [row[-6:] for row in rest] == ["line 2", "line 1"]
    assert "--after" in refused(served, capsys, "logs", "search", "another", "--after", place)


def test_a_terminal_is_told_that_there_is_nothing(served: Rota, job: str) -> None:
    code, shown = on_terminal(served.folder, "logs", "search", "slithytoves")
    assert (code, shown.splitlines()[-1]) == (0, "(no line fits)")
    assert served.ok("logs", "search", "slithytoves") == ""


def test_json(served: Rota, job: str) -> None:
    (line,) = map(json.loads, served.ok("--json", "logs", "search", "level:error", "-A", "1").splitlines())
    assert (line["job"], line["level"], line["stream"], line["attempt"]) == (job, "error", "stderr", 1)
    assert line["base64"] is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["colour:red"], "there is no field"),
        (["/(/"], "regular expression"),
        (["--stream", "out"], "stdout, stderr, log"),
        (["-C", "51"], "0 to 50"),
        (["-B", "-1"], "0 to 50"),
        (["--limit", "0"], "1 to 1000000"),
        (["--after", "x"], "--after"),
        (["--timestamps"], "unrecognized"),
    ],
)
def test_wrong_words(served: Rota, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert said in refused(served, capsys, "logs", "search", "line", *words)


@pytest.mark.slow
def test_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no store" in refused(Rota(tmp_path), capsys, "logs", "search", "line", code=1)
