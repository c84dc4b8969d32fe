"""The public names of the classes that users meet are those of docs/sdk.md, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rota
from rota.tasks.direct import direct_context

PAGE = Path(__file__).parent.parent / "docs" / "sdk.md"
EXTENDS = {"Stub": "Task", "WorkflowBuilder": "Workflow"}


def documented(title: str) -> set[str]:
    """The names in the first column of the table under a title; `and twin` stands for the name with `_sync`."""
    section = (
        PAGE.read_text("utf-8").partition("## All names")[2].partition(f"\n### {title}\n")[2].partition("\n### ")[0]
    )
    assert section, f"docs/sdk.md has no section {title} under 'All names'"
    found = set(documented(EXTENDS[title])) if title in EXTENDS else set()
    for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        names = re.findall(r"`(\w+)`", cell)
        found |= {*names, *(f"{name}_sync" for name in names if cell.endswith("and twin"))}
    return found


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def things() -> dict[str, object]:
    app = rota.App("sqlite:///:memory:")

    @app.task
    def send(to: str) -> None: ...

    return {
        "App": app, "Task": send, "Stub": app.stub("mail"), "Job": rota.Job(app, "1"),
        "Workflow": rota.Workflow(app, "1"), "WorkflowBuilder": app.workflow("w"),
        "Schedule": rota.Schedule(app, "nightly"), "JobQuery": app.jobs(), "Logs": app.logs,
        "Lock": app.lock("report"), "Context": direct_context("send"),
    }  # fmt: skip


def test_a_twin_has_the_names_of_its_lock() -> None:
    app = rota.App("sqlite:///:memory:")
    assert public(app.lock_sync("report")) == public(app.lock("report"))


@pytest.mark.parametrize("title", list(things()))
def test_public_names_are_documented(title: str) -> None:
    assert public(things()[title]) == documented(title)
