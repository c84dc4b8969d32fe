"""`rota task ...`: what nodes offer."""

from __future__ import annotations

import pytest

from tests.cli.program import Rota


def test_the_tasks_with_their_options_and_nodes(served: Rota) -> None:
    listed = {task["name"]: task for task in served.json("task", "list")}
    far = listed["far"]
    assert (far["queue"], far["priority"], far["retry"]["retries"]) == ("elsewhere", 2, 4)
    assert listed["hello"]["parameters"] == [
        {"name": "name", "types": ["string"], "required": True},
        {"name": "times", "types": ["integer"], "required": False},
    ]
    assert far["nodes"] == [node["id"] for node in served.json("node", "list")]
    lines = served.ok("task", "list").splitlines()
    assert lines[0].split() == ["NAME", "QUEUE", "PRI", "RETRIES", "TIMEOUT", "NODES", "PARAMETERS"]
    assert any(line.startswith("hello ") and "name: string, times: integer (optional)" in line for line in lines)


def test_one_task(served: Rota) -> None:
    job = served.ok("submit", "far")
    shown = served.ok("task", "show", "far")
    for text in ("anything: any (optional)", "elsewhere, priority 2", "4, backoff 1s", "1 live, 0 dead"):
        assert text in shown
    assert served.json("task", "show", "far")["jobs"] == {"live": 1, "dead": 0}
    served.ok("job", "cancel", job)


@pytest.mark.slow
def test_a_task_that_nobody_offers(served: Rota) -> None:
    done = served("task", "show", "helo")
    assert done.returncode == 2
    assert done.stderr == "rota: unknown task 'helo'; did you mean hello?\n"
