"""Searching segments and unsealed chunks on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.lines.words import Probe
from rota.model.principal import Principal
from rota.store.carriers import log_search as carrier
from rota.store.log_search import Dialect, Query
from rota.store.log_store import Extent, RawPage, RawScan, SegmentPage, SegmentScan
from rota.store.postgres.database import Unit
from rota.store.postgres.encoding import glob, ids_only

# The filter is stored as it is, so the server reads only the 64 bytes of a block.
_BIT = "get_bit(substring(s.words FROM (w.block % (octet_length(s.words) / 64) * 64 + 1)::int FOR 64), w.bit)"
_WORDS = f"NOT EXISTS (SELECT FROM unnest({{}}::bigint[], {{}}::integer[]) AS w(block, bit) WHERE {_BIT} = 0)"
_ONE_OF_EACH = f"""NOT EXISTS (
    SELECT FROM (SELECT w.place, bool_and({_BIT} = 1) AS there
                 FROM unnest({{}}::integer[], {{}}::integer[], {{}}::bigint[], {{}}::integer[])
                      AS w(place, word, block, bit)
                 GROUP BY w.place, w.word) known
    GROUP BY known.place HAVING NOT bool_or(known.there))"""  # noqa: S608


def dialect(schema: str) -> Dialect:
    return Dialect(
        schema=f"{schema}.",
        mark="${}",
        id="s.id::text",
        task="{column} ~ ANY ({}::text[])",
        tasks=lambda globs: [glob(one) for one in globs],
        words=_words,
        columns=list,
        of_jobs="s.id IN (SELECT h.id FROM unnest({}::uuid[], {}::bigint[]) AS w(job, cell) JOIN {schema}segments h"
        " ON h.cell = w.cell AND h.low_job <= w.job AND h.high_job >= w.job"
        " AND position(uuid_send(w.job) IN h.jobs) > 0)",
        ids=ids_only,
        among="= ANY ({}::uuid[])",
        raw="{schema}output o JOIN LATERAL (SELECT id, owner, task FROM {schema}jobs WHERE id = o.job"
        " UNION ALL SELECT id, owner, task FROM {schema}history WHERE id = o.job LIMIT 1) j ON true",
        raw_job="o.job::text",
        raw_of_jobs="o.job = ANY ({}::uuid[])",
        raw_place="({}, o.job, o.fence, o.number) {} ({}, {}::uuid, {}, {})",
    )


def _words(groups: Sequence[Sequence[Probe]]) -> list[tuple[str, list[list[int]]]]:
    """Words without an alternative are looked up faster than groups."""
    found: list[tuple[str, list[list[int]]]] = []
    if bits := [(word.block, bit) for group in groups if len(group) == 1 for word in group for bit in word.bits]:
        found.append((_WORDS, _columns(bits)))
    several = [
        (place, number, word.block, bit)
        for place, group in enumerate(groups) if len(group) != 1
        for number, word in enumerate(group)
        for bit in word.bits
    ]  # fmt: skip
    if several:
        found.append((_ONE_OF_EACH, _columns(several)))
    return found


def _columns(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def _fetch(unit: Unit, query: Query) -> list[Any]:
    return list(await unit.connection.fetch(query.text, *query.values))


async def segments(unit: Unit, who: Principal, scan: SegmentScan) -> SegmentPage:
    await unit.begin()
    return await carrier.segments(lambda query: _fetch(unit, query), dialect(unit.database.schema), who, scan)


async def segment_extent(unit: Unit, who: Principal, scan: SegmentScan) -> Extent:
    return await carrier.segment_extent(lambda query: _fetch(unit, query), dialect(unit.database.schema), who, scan)


async def unsealed(unit: Unit, who: Principal, scan: RawScan) -> RawPage:
    return await carrier.unsealed(unit, lambda query: _fetch(unit, query), dialect(unit.database.schema), who, scan)
