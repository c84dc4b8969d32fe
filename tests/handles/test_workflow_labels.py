"""What tells the jobs of a workflow apart."""

from __future__ import annotations

import json

from rota.handles.workflow_labels import LONGEST_VALUE, details
from rota.model.graph import Edge, Need
from rota.model.lifecycle import State
from rota.store.graph import WorkflowJob


def job(task: str, name: str = "", args: str = "{}", parents: tuple[Edge, ...] = ()) -> WorkflowJob:
    return WorkflowJob(f"{task}{name}{args}", task, State.READY, None, None, None, parents, name, args)


def test_a_task_that_is_there_once_says_enough() -> None:
    assert details([job("load", args='{"n":1}'), job("save", args='{"n":1}')]) == ["", ""]
    assert details([]) == []


def test_equal_tasks_are_told_apart_by_their_arguments() -> None:
    found = [job("load", args=json.dumps({"day": f"2027-01-0{n}", "part": n, "all": [True, None]})) for n in (1, 2)]
    assert details(found) == [
        "load day=2027-01-01 part=1 all=[true,null]",
        "load day=2027-01-02 part=2 all=[true,null]",
    ]
    assert details([job("load"), job("load", args="")]) == ["", ""], "nothing tells them apart"
    assert details([job("load", args="{broken"), job("load", args="[1]")]) == ["", ""]


def test_a_name_wins_and_leaves_the_others() -> None:
    found = [job("load", "first"), job("load", args='{"n":1}'), job("load", "load")]
    assert details(found) == ["first (load)", "", "load"]


def test_long_values_are_cut_and_results_are_dots() -> None:
    args = json.dumps({"text": "x" * 99, "rows": None, "more": {"a": 1, "b": None}, "n": None})
    parents = (Edge("p", Need.SUCCESS, (("rows",), ("more", "b"))),)
    shown, _ = details([job("load", args=args, parents=parents), job("load")])
    assert shown == f"load text={'x' * (LONGEST_VALUE - 1)}… rows=… more=… n=null"
