"""Searching segments and unsealed chunks on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.model.principal import Principal
from rota.store.carriers import log_search as carrier
from rota.store.log_search import Dialect, Query
from rota.store.log_store import Extent, RawPage, RawScan, SegmentPage, SegmentScan
from rota.store.sqlite.database import encode
from rota.store.sqlite.unit import SqliteUnit


def _json(values: Sequence[Any]) -> str:
    return encode(values).decode()


DIALECT = Dialect(
    schema="",
    mark="?{}",
    id="s.id",
    task="EXISTS (SELECT 1 FROM json_each({}) g WHERE {column} GLOB g.value)",
    tasks=_json,
    words=lambda groups: [("has_words(s.words, {})", [_json(groups)])] if groups else [],
    columns=lambda columns: [_json(list(zip(*columns, strict=True)))],
    of_jobs="s.id IN (SELECT h.id FROM json_each({}) w CROSS JOIN segments h"
    " ON h.cell = w.value ->> 1 AND h.low_job <= w.value ->> 0 AND h.high_job >= w.value ->> 0"
    " AND instr(h.jobs, unhex(replace(w.value ->> 0, '-', ''))) > 0)",
    ids=_json,
    among="IN (SELECT value FROM json_each({}))",
    raw="output o CROSS JOIN jobs j ON j.seq = o.job",
    raw_job="j.id",
    raw_of_jobs="o.job IN (SELECT w.seq FROM jobs w WHERE w.id IN (SELECT value FROM json_each({})))",
    raw_place="({}, o.job, o.fence, o.number) {} ({}, coalesce((SELECT seq FROM jobs WHERE id = {}), -1), {}, {})",
)


def _fetch(unit: SqliteUnit) -> carrier.Fetch:
    async def fetch(query: Query) -> list[Any]:
        return unit.db.found(query.text, query.values)

    return fetch


async def segments(unit: SqliteUnit, who: Principal, scan: SegmentScan) -> SegmentPage:
    return await carrier.segments(_fetch(unit), DIALECT, who, scan)


async def segment_extent(unit: SqliteUnit, who: Principal, scan: SegmentScan) -> Extent:
    return await carrier.segment_extent(_fetch(unit), DIALECT, who, scan)


async def unsealed(unit: SqliteUnit, who: Principal, scan: RawScan) -> RawPage:
    return await carrier.unsealed(unit, _fetch(unit), DIALECT, who, scan)
