"""How far a job is: a bar in `job show`, and live on a terminal only."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.cli.live import bar, used
from rota.model.outcome import Usage
from rota.model.progress import Progress
from tests.cli.program import Rota, on_terminal

WIPE = "\r\x1b[K"


@pytest.mark.parametrize(
    ("fraction", "text", "shown"),
    [
        (0.4, "loading", "[####------] 40 % loading"),
        (0, "", "[----------] 0 %"),
        (1, "", "[##########] 100 %"),
        (0.999, "not yet", "[#########-] 99 % not yet"),
        (None, "thinking", "thinking"),
        (0.5, "\x1b[31m\nred", "[#####-----] 50 % \\x1b[31m red"),
    ],
)
def test_a_bar(fraction: float | None, text: str, shown: str) -> None:
    assert bar(Progress.told(fraction, text, 0)) == shown


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        (
            Usage(3_000_400, 1_234_000, 34_000_000, ("rlimits", "cgroup")),
            "1.2 s of CPU, 34 MB, ran 3s; isolated by rlimits, cgroup",
        ),
        (Usage(wall_time=20_000), "ran 20ms"),
        (Usage(isolation=("none",)), "isolated by none"),
        (Usage(), ""),
    ],
)
def test_what_was_used_up(usage: Usage, shown: str) -> None:
    assert used(usage) == shown


def waiting(folder: Path, text: str) -> tuple[list[str], Callable[[str, int], None]]:
    """A command that tells, says and goes on when the bar was seen; and what sees it."""
    gate = folder / "go-on"
    gate.unlink(missing_ok=True)
    script = f"{text}; while ! [ -e {gate} ]; do sleep 0.01; done; echo after"

    def act(shown: str, pid: int) -> None:
        if "40 % loading" in shown:
            gate.touch()

    return ["sh", "-c", script], act


def test_a_terminal_shows_it_live_and_in_the_end_nothing_of_it(served: Rota) -> None:
    command, act = waiting(served.folder, "echo before; echo 0.4 loading >&3")
    code, shown = on_terminal(served.folder, "run", "--", *command, act=act)
    assert code == 0
    assert f"{WIPE}[####------] 40 % loading" in shown
    left = re.sub(r"\r\x1b\[K[^\r]*(?=\r\x1b\[K)", "", shown).replace(WIPE, "")
    assert left == "before\r\nafter\r\n", shown


@pytest.mark.slow
def test_a_line_that_was_begun_is_not_wiped(served: Rota) -> None:
    command, act = waiting(served.folder, "printf begun; sleep 0.5; echo 0.4 loading >&3; sleep 0.5; echo ' ended'")
    code, shown = on_terminal(served.folder, "run", "--", *command, act=act)
    assert code == 0
    assert "begun ended\r\n" in shown


@pytest.mark.slow
def test_others_who_follow_it_see_it_too(served: Rota) -> None:
    command, act = waiting(served.folder, "echo 0.4 loading >&3")
    job = served.ok("submit", "--", *command).split()[-1]
    for words in (["job", "wait", job], ["job", "logs", "--follow", job]):
        code, shown = on_terminal(served.folder, *words, act=act)
        assert code == 0
        if words[1] == "wait":
            assert f"{WIPE}[####------] 40 % loading" in shown
    info = served.job(job)
    assert (info["progress"]["fraction"], info["progress"]["text"]) == (0.4, "loading")
    (attempt,) = info["attempts"]
    assert attempt["usage"]["memory"] > 1_000_000
    assert attempt["usage"]["wall"] > 0
    shown = served.ok("job", "show", job)
    assert "progress  [####------] 40 % loading\n" in shown
    assert re.search(r"used +([\d.]+ s of CPU, )?\d+ MB, ran [\d.]+m?s", shown)


def test_logs_that_are_followed_have_it_at_their_foot(served: Rota) -> None:
    command, act = waiting(served.folder, "echo before; echo 0.4 loading >&3")
    job = served.ok("submit", "--", *command).split()[-1]
    code, shown = on_terminal(served.folder, "job", "logs", "--follow", job, act=act)
    assert code == 0
    assert f"before\r\n{WIPE}[####------] 40 % loading" in shown


@pytest.mark.slow
def test_a_pipe_never_sees_it(served: Rota) -> None:
    command = ["sh", "-c", "echo 0.4 loading >&3; sleep 1; echo out"]
    done = served("run", "--", *command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")
    done = served("--json", "run", "--", *command)
    assert (done.returncode, done.stderr) == (0, "out\n")
    assert json.loads(done.stdout)["progress"]["text"] == "loading"
