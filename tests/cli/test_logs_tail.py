"""`rota logs tail`: in a pipe, on a terminal, as JSON, and with words that are no query."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.cli import completion
from tests.cli.program import Rota, Running, on_terminal, refused

SCRIPT = r'while [ ! -e stop ]; do printf "out \033[31mred\033[2J\377\n"; echo WARNING err >&2; sleep 0.2; done'


@pytest.fixture(scope="module")
def job(served: Rota) -> Iterator[str]:
    """It goes on printing, so a tail need not begin before it."""
    yield served.ok("submit", "--name", "printer", "--", "sh", "-c", SCRIPT)
    Path(served.folder / "stop").touch()


def interrupted(tail: Running) -> None:
    tail.signal(signal.SIGINT)
    assert (tail.end(), tail.err) == (130, "")


def test_a_pipe_gets_each_line_behind_its_time_task_job_and_stream(served: Rota, job: str) -> None:
    tail = served.start("logs", "tail", "task:printer", "level>=warning")
    tail.read_until("err\n", "out")
    interrupted(tail)
    for line in tail.out.splitlines():
        assert line[12:] == f" printer {job[-8:]} stderr WARNING err"
        assert line[2] == line[5] == ":"


def test_bytes_stay_as_they_are_in_a_pipe(served: Rota, job: str) -> None:
    tail = served.start("logs", "tail", f"id:{job[-6:]}", "--stream", "stdout", "-t")
    assert tail.process.stdout is not None
    line = tail.process.stdout.readline()
    assert line.endswith(b" printer %s stdout out \x1b[31mred\x1b[2J\xff\n" % job[-8:].encode())
    assert line[10:11] == b"T"
    tail.signal(signal.SIGINT)
    tail.process.communicate(timeout=30)
    assert tail.process.returncode == 130


@pytest.mark.slow
def test_json(served: Rota, job: str) -> None:
    tail = served.start("--json", "logs", "tail", "WARNING")
    tail.read_until("}\n", "out")
    interrupted(tail)
    line = json.loads(tail.out.splitlines()[0])
    assert (line["job"], line["text"], line["level"], line["stream"]) == (job, "WARNING err", "warning", "stderr")


def test_a_terminal_gets_colours_but_no_commands(served: Rota, job: str) -> None:
    def end(shown: str, pid: int) -> None:
        if "err\r\n" in shown and "\\x1b[2J" in shown:
            os.kill(pid, signal.SIGINT)

    code, shown = on_terminal(served.folder, "logs", "tail", "task:printer", act=end)
    assert code == 130
    assert "out \x1b[31mred\\x1b[2J\ufffd\x1b[0m\r\n" in shown
    assert "\x1b[31mstderr\x1b[0m WARNING err" in shown
    assert "\x1b[2J" not in shown


def test_wrong_words(served: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no field" in refused(served, capsys, "logs", "tail", "stat:x")
    assert "stdout, stderr, log" in refused(served, capsys, "logs", "tail", "--stream", "out")
    assert "no store" in refused(Rota(served.folder / ".."), capsys, "logs", "tail", code=1)


def never(source: str, place: str | None) -> list[completion.Candidate]:
    pytest.fail(f"the store was asked for {source}")


def test_fields_of_lines_are_completed() -> None:
    def offered(*words: str) -> list[str]:
        return [word for word, _ in completion.candidates(words, never)]

    assert offered("logs", "tail", "str") == ["stream:"]
    assert offered("logs", "tail", "task:x", "level:wa") == ["level:warning"]
    assert offered("job", "list", "str") == []
