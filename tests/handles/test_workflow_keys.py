"""Workflows whose jobs have keys, ordered again."""

from __future__ import annotations

import rota
from rota.testing import harness

app = rota.App("sqlite:///never-made.db")


@app.task
async def extract(n: int) -> int:
    return n


@app.task
async def total(parts: list[int]) -> int:
    return sum(parts)


async def test_a_keyed_workflow_ordered_again_makes_no_last_job_twice() -> None:
    async with harness(app) as rota_test:
        flows = []
        for _ in range(2):
            async with app.workflow(
                "once", on_success=(total, {"parts": [1]}), on_failure=(total, {"parts": [2]})
            ) as flow:
                flow.add(extract.options(key="k"), n=1)
            flows.append(flow)
        await rota_test.drain()
        assert flows[0].id == flows[1].id
        assert [job.task for job in await flows[0].jobs()] == ["extract", "total", "total"]
        assert len(rota_test.submitted(total)) == 2
