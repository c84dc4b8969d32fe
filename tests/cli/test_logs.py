"""`rota job logs`: every attempt, live, in a pipe and on a terminal."""

from __future__ import annotations

import json

import pytest

from rota.cli.logs import _Stamped
from rota.store.values import CUT, Chunk
from tests.cli.program import Rota, on_terminal

SCRIPT = r'printf "out $ROTA_ATTEMPT \033[31mred\033[2J\377\n"; echo err >&2; exit 1'


@pytest.fixture(scope="module")
def job(served: Rota) -> str:
    words = ["submit", "--wait", "--retries", "1", "--backoff", "1ms", "--", "sh", "-c", SCRIPT]
    return served.here(*words)[1]


def test_a_pipe_gets_the_bytes(served: Rota, job: str) -> None:
    running = served.start("job", "logs", job)
    out, err = running.process.communicate(timeout=30)
    assert sorted(out.splitlines()) == [
        b"err",
        b"err",
        b"out 1 \x1b[31mred\x1b[2J\xff",
        b"out 2 \x1b[31mred\x1b[2J\xff",
    ]
    assert err == b""


def test_a_terminal_gets_colours_but_no_commands(served: Rota, job: str) -> None:
    code, shown = on_terminal(served.folder, "job", "logs", job)
    assert code == 0
    assert "out 1 \x1b[31mred\\x1b[2J\ufffd" in shown
    assert "\x1b[2J" not in shown


@pytest.mark.slow
def test_one_attempt(served: Rota, job: str) -> None:
    running = served.start("job", "logs", "--attempt", "2", job)
    out, _ = running.process.communicate(timeout=30)
    assert b"out 2" in out
    assert b"out 1" not in out
    missing = served("job", "logs", "--attempt", "3", job)
    assert (missing.returncode, missing.stderr) == (1, f"rota: no attempt 3 of job {job!r}\n")


@pytest.mark.slow
def test_one_stream(served: Rota, job: str) -> None:
    assert served.ok("job", "logs", "--stream", "stderr", job) == "err\nerr"
    assert served.ok("job", "logs", "--stream", "log", job) == ""
    wrong = served("job", "logs", "--stream", "out", job)
    assert wrong.stderr == "rota: --stream: 'out' is not valid; expected one of stdout, stderr, log\n"
    assert wrong.returncode == 2


def test_timestamps(served: Rota) -> None:
    job = served.ok("submit", "--wait", "--", "sh", "-c", "echo one; echo two")
    lines = served.ok("job", "logs", "-t", job).splitlines()
    assert [line.split()[1:] for line in lines] == [["stdout", "one"], ["stdout", "two"]]
    assert all(line.startswith("20") and line.split()[0].endswith("+00:00") for line in lines)


def test_a_cut_ends_the_lines_before_it() -> None:
    """What comes behind it is the end of another line."""

    class Target:
        shown = b""

        def put(self, body: bytes) -> None:
            self.shown += body

        def close(self) -> None:
            pass

    target = Target()
    stamped = _Stamped(target)
    pieces = [("stdout", b"one\nhalf"), (CUT, b"\n[cut]\n"), ("stdout", b"half\nlast")]
    for number, (stream, body) in enumerate(pieces):
        stamped.write(Chunk("job", 1, number, number * 1_000_000, stream, body), 1)
    stamped.close()
    lines = [line.split() for line in target.shown.decode().splitlines()]
    assert [(line[0][17:19], *line[1:]) for line in lines] == [
        ("00", "stdout", "one"), ("00", "stdout", "half"), ("01", "cut", "[cut]"),
        ("02", "stdout", "half"), ("02", "stdout", "last"),
    ]  # fmt: skip


def test_json_lines(served: Rota, job: str) -> None:
    lines = [json.loads(line) for line in served.ok("job", "logs", "--json", job).splitlines()]
    assert all(line.keys() == {"at", "attempt", "fence", "stream", "text"} for line in lines)
    assert {(line["attempt"], line["stream"]) for line in lines} == {
        (n, s) for n in (1, 2) for s in ("stdout", "stderr")
    }
    assert "".join(line["text"] for line in lines if line["stream"] == "stderr") == "err\nerr\n"


def test_output_of_functions(served: Rota) -> None:
    job = served.ok("submit", "--wait", "hello", '{"name": "you"}').split()[0]
    assert served.ok("job", "logs", job) == "hello you"


def test_following_ends_with_the_job(served: Rota) -> None:
    gate = served.folder / "gate"
    job = served.ok("submit", "--", "sh", "-c", f"echo begun; while ! test -e {gate}; do sleep 0.02; done; echo done")
    running = served.start("job", "logs", "--follow", job)
    assert running.read_until("begun", stream="out") == "begun\n"
    gate.touch()
    assert running.end() == 0
    assert running.out == "begun\ndone\n"
    assert served.ok("job", "wait", job) == f"{job} succeeded"
