"""`rota run`: a command with its output and its exit code."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.program import Rota, on_terminal


def test_output_and_exit_code_are_those_of_the_command(served: Rota) -> None:
    done = served("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_it_runs_where_it_was_ordered_with_the_variables_given(served: Rota) -> None:
    done = served("run", "--env", "A=1", "--env", "B=x=y", "--", "sh", "-c", 'pwd; echo "$A $B $ROTA_ATTEMPT"')
    assert done.stdout == f"{served.folder}\n1 x=y 1\n"


def test_a_command_can_run_rota_itself(served: Rota) -> None:
    done = served("run", "--", sys.executable, "-m", "rota", "queue", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "default" in done.stdout


@pytest.mark.slow
def test_a_script_beside_which_it_was_ordered(served: Rota) -> None:
    script = served.folder / "x.sh"
    script.write_text("#!/bin/sh\necho ran $1\n")
    script.chmod(0o755)
    assert served.ok("run", "--", "./x.sh", "here") == "ran here"


@pytest.mark.slow
def test_what_it_reads(served: Rota) -> None:
    (served.folder / "words").write_text("from a file\n")
    assert served.ok("run", "--stdin", "said here", "--", "cat") == "said here"
    assert served.ok("run", "--stdin", "@words", "--", "cat") == "from a file"
    done = served("run", "--stdin", "-", "--", "cat", stdin="piped\n")
    assert done.stdout == "piped\n"


@pytest.mark.slow
def test_what_it_may_use(served: Rota) -> None:
    words = ["--memory", "1GB", "--files", "100", "--file-size", "1MB", "--cpu", "30s", "--processes", "50"]
    script = "ulimit -Hn; ulimit -Ht; dd if=/dev/zero of=$TMPDIR/big bs=1M count=2"
    done = served("run", *words, "--", "sh", "-c", script)
    assert done.returncode == 128 + signal.SIGXFSZ
    assert done.stdout == "100\n35\n"
    assert "it wrote a file larger than 1MB" in done.stderr


@pytest.mark.slow
def test_variables_of_the_node_only_if_it_gives_them(served: Rota) -> None:
    done = served("run", "--env-from", "SECRET", "--", "env")
    assert done.returncode == 1
    assert "a variable that this node gives away (command_env: none)" in done.stderr


def test_a_relative_folder_is_one_of_ours(served: Rota) -> None:
    (served.folder / "sub").mkdir()
    assert served.ok("run", "--cwd", "sub", "--", "pwd") == str(served.folder / "sub")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "no-such-program"], 127, "no-such-program"),
        (["--", "/etc"], 126, "/etc"),
        (["--", "sh", "-c", "kill -SEGV $$"], 139, "killed by SIGSEGV"),
        (["--timeout", "200ms", "--", "sleep", "60"], 124, "timed out after 200ms"),
        (["--cwd", "/no/such/folder", "--", "true"], 127, "/no/such/folder"),
    ],
)
def test_exit_codes_of_commands_that_did_not_end_by_themselves(
    served: Rota, words: list[str], code: int, said: str
) -> None:
    done = served("run", *words)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("rota: job ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


@pytest.mark.slow
def test_retries_only_if_asked_for(served: Rota) -> None:
    flag = served.folder / "tried"
    words = ["--", "sh", "-c", f"echo try; test -e {flag} || {{ touch {flag}; exit 1; }}"]
    done = served("run", "--retries", "1", "--backoff", "10ms", *words)
    assert (done.returncode, done.stdout) == (0, "try\ntry\n")
    flag.unlink()
    assert served("run", *words).returncode == 1


def test_json_prints_the_job_and_nothing_else_on_stdout(served: Rota) -> None:
    done = served("run", "--json", "--name", "greeting", "--", "echo", "hi")
    job = json.loads(done.stdout)
    assert done.stderr == "hi\n"
    assert (job["task"], job["state"], job["retry"]["retries"]) == ("greeting", "succeeded", 0)


def test_bytes_pass_as_they_are(served: Rota) -> None:
    running = served.start("run", "--", "printf", r"\377\033[2Jx")
    out, _ = running.process.communicate(timeout=30)
    assert out == b"\xff\x1b[2Jx"


def test_output_is_followed_live_and_ctrl_c_cancels(served: Rota) -> None:
    running = served.start("run", "--name", "sleeper", "--", "sh", "-c", "echo begun; sleep 60; echo never")
    running.read_until("begun", stream="out")
    running.signal(signal.SIGINT)
    assert running.end() == 130
    assert "never" not in running.out
    (job,) = served.json("job", "list", "--task", "sleeper")
    assert (job["state"], job["reason"]) == ("cancelled", "interrupted by its user")


def test_a_command_that_nobody_listens_to_is_cancelled(served: Rota) -> None:
    running = served.start("run", "--name", "talker", "--", "sh", "-c", "while echo y; do sleep 0.05; done")
    running.read_until("y", stream="out")
    assert running.process.stdout
    running.process.stdout.close()
    running.process.stdout = None
    assert running.end() == 141
    assert running.err == ""
    (job,) = served.json("job", "list", "--task", "talker")
    served.here("job", "wait", job["id"])
    assert served.job(job["id"])["state"] == "cancelled"


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait(served: Rota) -> None:
    running = served.start("run", "--", "sh", "-c", "trap '' TERM INT; echo begun; while :; do sleep 1; done")
    running.read_until("begun", stream="out")
    running.signal(signal.SIGINT)
    running.signal(signal.SIGINT)
    assert running.end() == 130


def test_without_a_node_a_hint_says_so_and_ctrl_c_takes_the_order_back(tmp_path: Path) -> None:
    def interrupt(shown: str, pid: int) -> None:
        if "no node is running" in shown and "cancelling" not in shown:
            os.kill(pid, signal.SIGINT)

    code, shown = on_terminal(tmp_path, "run", "--", "true", act=interrupt)
    assert code == 130
    assert "no node is running: start one with `rota up`" in shown
    assert [job["state"] for job in Rota(tmp_path).json("job", "list")] == ["cancelled"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--queue", "nowhere", "--", "true"], "no node serves queue 'nowhere'"),
        (["--in", "1h", "--", "true"], "waiting for its time, in 59m"),
    ],
)
def test_hints_say_what_is_waited_for(served: Rota, words: list[str], said: str) -> None:
    def interrupt(shown: str, pid: int) -> None:
        if "rota: waiting" in shown and "cancelling" not in shown:
            os.kill(pid, signal.SIGINT)

    code, shown = on_terminal(served.folder, "run", *words, act=interrupt)
    assert code == 130
    assert said in shown
