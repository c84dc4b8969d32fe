"""`rota up`: starting, stopping, and the app it runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.cli.program import LONG, Rota, environment


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("nowhere:app", "there is no module 'nowhere' in "),
        ("shop:ap", "shop has no 'ap'"),
        pytest.param("shop:rota", "is a module; expected a rota.App", marks=pytest.mark.slow),
        pytest.param("shop.py", "there is no module 'shop.py' in", marks=pytest.mark.slow),
        ("./shop.py:app", "expected MODULE:APP such as shop.jobs:app"),
        pytest.param(":app", "expected MODULE:APP", marks=pytest.mark.slow),
        ("broken:app", "importing broken failed: ZeroDivisionError: division by zero (broken.py, line 2)"),
        pytest.param(
            "needs:app",
            "importing needs failed: ModuleNotFoundError: No module named 'not_there' (needs.py, line 1)",
            marks=pytest.mark.slow,
        ),
        pytest.param("syntax:app", "importing syntax failed: SyntaxError: ", marks=pytest.mark.slow),
        pytest.param(
            "leaves:app", "importing leaves failed: SystemExit: 3 (leaves.py, line 1)", marks=pytest.mark.slow
        ),
    ],
)
def test_a_wrong_app(app: str, said: str, rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    (rota.folder / "broken.py").write_text("import rota\n1 / 0\n")
    (rota.folder / "needs.py").write_text("import not_there\n")
    (rota.folder / "syntax.py").write_text("def\n")
    (rota.folder / "leaves.py").write_text("raise SystemExit(3)\n")
    done = rota("up", "--app", app)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rota: --app {app}: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(rota.folder.glob("rota.db*"))


@pytest.mark.slow
def test_the_app_may_be_named_by_its_module_alone_and_options_win_over_its_settings(rota: Rota) -> None:
    (rota.folder / "own.py").write_text('import rota\napp = rota.App("sqlite:///own.db", queues="a:1,b:2")\n')
    node = rota.start("up", "--app", "own", "--queues", "c:3", "--verbose")
    assert "queues c:3; 0 functions; store sqlite:///own.db" in node.read_until("is up")
    assert node.stop() == 0
    assert (rota.folder / "own.db").exists()


def test_a_stop_in_order(rota: Rota) -> None:
    node = rota.up("--grace", "20s")
    running = rota.start("run", "--", "sh", "-c", "echo begun; sleep 0.5; echo done")
    running.read_until("begun", stream="out")
    node.signal()
    assert node.end() == 0
    assert "1 running jobs have 20s to finish" in node.err
    assert "has stopped" in node.err
    assert running.end() == 0
    assert running.out == "begun\ndone\n"


@pytest.mark.sampled
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_hurries(rota: Rota, number: signal.Signals) -> None:
    node = rota.up()
    job = rota.ok("submit", "--", "sh", "-c", "touch begun; sleep 60")
    while not (rota.folder / "begun").exists():
        assert rota.job(job)["state"] in ("ready", "running")
    node.signal(number)
    node.read_until("have 30s to finish")
    node.signal(number)
    assert node.end() == 0
    found = rota.job(job)
    assert (found["state"], found["failures"], found["interruptions"]) == ("ready", 0, 1)


@pytest.mark.slow
def test_a_function_that_never_ends_does_not_keep_the_process(rota: Rota) -> None:
    node = rota.up("--app", "shop:app", "--grace", "0s")
    flag = rota.folder / "begun"
    job = rota.ok("submit", "stuck", json.dumps({"flag": str(flag)}))
    while not flag.exists():
        assert rota.job(job)["state"] in ("ready", "running")
    node.signal()
    assert node.end() == 0, node.err


def test_threads_of_the_user_do_not_keep_the_process(rota: Rota) -> None:
    (rota.folder / "threads.py").write_text(
        "import threading, time, rota\napp = rota.App()\nthreading.Thread(target=time.sleep, args=[600]).start()\n"
    )
    node = rota.up("--app", "threads")
    assert node.stop() == 0


HANGING_HOOK = """
import asyncio, rota, time
from rota.work.functions import hooked
hooked.{limit} = 0.2
app = rota.App()

@app.on("process.{event}")
{hook}
"""


@pytest.mark.parametrize(
    "hook",
    [
        "def hangs(process): time.sleep(600)",
        "async def hangs(process): time.sleep(600)",
        "async def hangs(process): await asyncio.to_thread(time.sleep, 600)",
    ],
)
@pytest.mark.slow
def test_a_stop_hook_that_hangs_is_told_and_does_not_keep_the_process(rota: Rota, hook: str) -> None:
    (rota.folder / "hangs.py").write_text(HANGING_HOOK.format(limit="STOP_LIMIT", event="stop", hook=hook))
    node = rota.up("--app", "hangs")
    assert node.stop() == 0
    assert "error   the hooks process.stop of the node took longer than 0.2 s" in node.err
    assert "has stopped" in node.err


def test_a_start_hook_that_hangs_is_told_and_does_not_keep_the_process(rota: Rota) -> None:
    hook = "def hangs(process): time.sleep(600)"
    (rota.folder / "hangs.py").write_text(HANGING_HOOK.format(limit="START_LIMIT", event="start", hook=hook))
    done = rota("up", "--app", "hangs")
    assert (done.returncode, done.stderr) == (1, "rota: the hooks process.start of the node took longer than 0.2 s\n")


@pytest.mark.slow
def test_a_node_works_on_when_nobody_reads_its_lines(rota: Rota) -> None:
    node = rota.start("up", "--verbose", PYTHONUNBUFFERED="")  # so what it can not write is kept till the end
    node.read_until("is up")
    assert node.process.stderr
    node.process.stderr.close()
    node.process.stderr = None
    rota.ok("run", "--", "true")
    node.signal()
    assert node.end() == 0


def closed(rota: Rota, streams: str, *words: str) -> subprocess.Popen[bytes]:
    """A verb that was started without these standard streams."""
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "rota", *words]
    return subprocess.Popen(shell, cwd=rota.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.sampled
@pytest.mark.parametrize("streams", ["2>&-", ">&-", "<&-"])
def test_a_verb_without_a_standard_stream(rota: Rota, streams: str) -> None:
    rota.ok("submit", "--", "true")
    process = closed(rota, streams, "job", "list")
    out, err = process.communicate(timeout=LONG)
    assert (process.returncode, err) == (0, b"")
    assert bool(out) == (streams != ">&-")


@pytest.mark.slow
def test_a_node_without_standard_streams(rota: Rota) -> None:
    node = closed(rota, "<&- >&- 2>&-", "up", "--app", "shop:app", "--verbose")
    assert "hello you" in rota.ok("run", "--", "echo", "hello you")
    assert rota.ok("submit", "--wait", "hello", '{"name": "you"}')
    node.terminate()
    node.communicate(timeout=LONG)
    assert node.returncode == 0


@pytest.mark.slow
def test_quiet_and_json(rota: Rota) -> None:
    quiet = rota.start("up", "--quiet", "--node", "quiet")
    loud = rota.start("up", "--json", "--node", "loud")
    loud.read_until("NodeStarted", stream="out")
    assert loud.stop() == 0
    events = [json.loads(line) for line in loud.out.splitlines()]
    assert [event["event"] for event in events][-1] == "NodeStopped"
    assert loud.err == ""
    while not rota.json("node", "list"):
        pass
    assert quiet.stop() == 0
    assert quiet.err == ""


@pytest.mark.slow
def test_half_of_an_app_leaves_the_schedules_of_the_other_half(rota: Rota) -> None:
    """`rota up` by an entry point that does not import the module with the schedules."""
    (rota.folder / "bank.py").write_text('import rota\napp = rota.App(name="billing")\n')
    tasks = 'from bank import app\n\n@app.cron("0 3 * * *", name="at night")\ndef nightly() -> None: ...\n'
    (rota.folder / "tasks.py").write_text(tasks)
    whole = rota.start("up", "--app", "tasks")
    assert "schedule at night of local was added: app billing declares it in tasks" in whole.read_until("is up")
    assert whole.stop() == 0
    half = rota.start("up", "--app", "bank")
    told = half.read_until("is up")
    assert "and they stay: at night (module tasks was not imported); if they are gone for good, " in told
    assert "`rota schedule remove 'at night'`" in told
    assert half.stop() == 0
    listed = rota("schedule", "list")
    assert listed.stdout.splitlines()[1].startswith("at night")
    assert listed.stderr == (
        "rota: the node of app 'billing' that started last does not declare 'at night' (module tasks): "
        "start one that imports it, or, if it is gone for good, `rota schedule remove 'at night'`\n"
    )
    shown = rota.ok("schedule", "show", "at night")
    assert "app billing, module tasks; not by the node of the app that started last" in shown
    assert "if it is gone for good, `rota schedule remove 'at night'`" in shown
    found = rota.json("schedule", "show", "at night")
    assert (found["module"], found["undeclared_at"] is None) == ("tasks", False)
    examined = rota("doctor").stdout
    assert "not declared by the node of their app that started last: at night; start one that imports" in examined
    assert "if they are gone for good, `rota schedule remove 'at night'`" in examined
    removed = rota("schedule", "remove", "at night")
    assert (removed.returncode, removed.stderr) == (0, "")
