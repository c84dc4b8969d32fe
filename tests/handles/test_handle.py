"""Handles as values: equal, and found in dicts."""

from __future__ import annotations

from pathlib import Path

import rota


def test_handles_of_one_store_are_equal_by_their_ids(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/a.db"
    app, again = rota.App(address), rota.App(address)
    others = rota.App(address, user="mia"), rota.App("sqlite:///:memory:"), rota.App("sqlite:///:memory:")
    for kind in (rota.Job, rota.Workflow, rota.Schedule):
        assert kind(app, "x") == kind(again, "x")
        assert len({kind(app, "x"), kind(again, "x"), kind(app, "y"), *(kind(one, "x") for one in others)}) == 5
    assert rota.Job(app, "x") not in (rota.Workflow(app, "x"), rota.Schedule(app, "x"), "x")


def test_handles_are_found_again_after_their_ids_have_changed() -> None:
    with rota.App("sqlite:///:memory:") as app:
        flow = app.workflow()
        with flow:
            flow.add(["true"])
            hooks = {flow.on_failure(["false"]): "bad", flow.on_success(["true"]): "good"}
        assert [hooks[job] for job in hooks] == ["bad", "good"]
        assert rota.Workflow(app, flow.id) == flow
        shown = f"WorkflowInfo(id={flow.id!r}, name='', state='waiting', counts={{'blocked': 2, 'ready': 1}})"
        assert repr(flow.info_sync()) == shown
        assert app.schedules_sync() == []
        assert app.job_sync(next(iter(hooks)).id) == next(iter(hooks))
