"""The workflow of a job, and its parents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rota.cli.show import Cell, state
from rota.clients.jobs import JobsClient
from rota.model.graph import EdgeState, Need, ParentInfo
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.store.graph import WorkflowFilter
from rota.tasks.results import shown
from rota.views.jobs import ParentView

MOST_SHOWN = 20  # parents, a line each
MOST_NAMED = 3  # of those that a blocked job waits for


class Relations(msgspec.Struct, frozen=True):
    workflow: str | None
    name: str  # of the workflow; "": none
    parents: list[ParentInfo]
    blocked: bool

    def fields(self) -> dict[str, Any]:
        """Those of JobDetailView."""
        parents = [ParentView.of(parent) for parent in self.parents]
        return {"workflow": self.workflow, "workflow_name": self.name or None, "parents": parents}

    def facts(self) -> Iterator[tuple[str, Cell]]:
        yield "waits for", self.awaited()
        yield "workflow", f"{self.name} ({self.workflow})" if self.workflow and self.name else self.workflow or ""
        for place, parent in enumerate(self.parents[:MOST_SHOWN]):
            text, style = _line(parent), state(parent.state or "gone")[1]
            yield "" if place else "after", (text, style)
        if len(self.parents) > MOST_SHOWN:
            yield "", f"and {len(self.parents) - MOST_SHOWN:,} more; see --json"

    def awaited(self) -> str:
        """The parents that a blocked job waits for."""
        if not self.blocked:
            return ""
        waiting = [parent for parent in self.parents if parent.edge is EdgeState.OPEN]
        named = [_line(parent) for parent in waiting[:MOST_NAMED]]
        rest = f" and {len(waiting) - MOST_NAMED:,} more" if len(waiting) > MOST_NAMED else ""
        return "; ".join(named) + rest


def _line(parent: ParentInfo) -> str:
    condition = "" if parent.need is Need.SUCCESS else f", on {parent.need}"
    result = f", its result is {', '.join(map(shown, parent.fills))}" if parent.fills else ""
    return f"{parent.name or parent.task or '?'} (…{parent.id[-8:]}) {parent.state or 'gone'}{condition}{result}"


async def relations(client: JobsClient, job: JobInfo) -> Relations:
    parents: Sequence[ParentInfo] = await client.store.parents(client.who, job.id)
    name = ""
    if job.workflow is not None:
        query = WorkflowFilter(ids=(job.workflow,))
        name = "".join(info.name for info in await client.store.workflows(client.who, query))
    return Relations(job.workflow, name, list(parents), job.state is State.BLOCKED)
