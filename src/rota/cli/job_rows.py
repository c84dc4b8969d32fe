"""The rows of a list of jobs: the usual columns, or those that `--columns` asks for."""

from __future__ import annotations

from collections.abc import Sequence

from rota.cli.columns import Column, cells, names_for
from rota.cli.job import HEADERS, row
from rota.cli.show import Cell
from rota.clients.jobs import JobsClient
from rota.model.job import JobInfo


def headers(columns: Sequence[Column]) -> Sequence[str]:
    return [column.name for column in columns] or HEADERS


async def rows(client: JobsClient, columns: Sequence[Column], jobs: Sequence[JobInfo]) -> list[tuple[Cell, ...]]:
    if not columns:
        now = client.store.now()
        return [row(job, now) for job in jobs]
    names = await names_for(client, columns, jobs)
    return [cells(columns, job, names) for job in jobs]
