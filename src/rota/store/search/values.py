"""Values of fields that jobs have, for the completion of queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rota.errors import InvalidInput
from rota.model.query.fields import JOB_FIELDS
from rota.model.query.tree import How, Term
from rota.store.carriers.unit import Unit
from rota.store.search.pages import Lookup, examined
from rota.store.search.prefixes import Prefix
from rota.store.values import JobFilter

OF_PREFIX = {"user": "owner", "queue": "queue", "task": "task"}
# Tables that have all values; the names of nodes are known to everyone.
QUERIES = {"schedule": "schedule_names", "workflow": "names_of_workflows", "node": "node_names"}
STORED = tuple(field.name for field in JOB_FIELDS if field.stored)


class PlaceLookup(Lookup, Protocol):
    async def prefixes_of(self, query: JobFilter) -> Iterable[Sequence[str]]:
        """The prefixes of the ended jobs that may fit."""


async def values(unit: Unit, lookup: PlaceLookup, sees: str | None, field: str, prefix: str, limit: int) -> list[str]:
    if field not in STORED:
        raise InvalidInput("field", field, f"one of {', '.join(STORED)}")
    if (text := unit.text(prefix)) != prefix:
        return []
    if field == "user" and sees is not None:
        found: Iterable[Any] = [sees]
    elif field in QUERIES:
        found = [name for (name,) in await unit.rows(QUERIES[field], sees=sees, prefix=text, limit=limit)]
    elif field in OF_PREFIX:
        found = await _of_prefixes(lookup, field, prefix)
    else:
        found = await _of_jobs(lookup, field, prefix)
    return sorted({one for one in found if one and one.startswith(prefix)})[:limit]


def _beginning(field: str, prefix: str) -> JobFilter:
    globs = any(char in prefix for char in "*?")
    return JobFilter(where=Term(field, How.HAS, prefix) if globs else Term(field, How.LIKE, f"{prefix}*"))


async def _of_prefixes(lookup: PlaceLookup, field: str, prefix: str) -> list[str]:
    query = _beginning(field, prefix)
    place = Prefix._fields.index(OF_PREFIX[field])
    ended = [one[place] for one in await lookup.prefixes_of(query)]
    return ended + [row.more[0] for row in (await examined(lookup, query, (field,), living=True)).rows]


async def _of_jobs(lookup: PlaceLookup, field: str, prefix: str) -> list[str]:
    """Of the newest jobs that have such a value."""
    found = await examined(lookup, _beginning(field, prefix), ())
    jobs = await lookup.infos([row.id for row in found.rows[:200]])
    return [label for job in jobs.values() for label in job.labels] if field == "label" else []
