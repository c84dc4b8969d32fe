"""The search for jobs as SQL, the only query that is built at run time: an unused condition must not prevent the use of
an index. The engines share the rules; their dialects (in their `reads`) word the conditions that differ.

Pages follow each other by a cursor, the sort key of the last row. The key of a job stays the same while the job fits,
so a job that fits all the time is found exactly once, whatever comes and goes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rota.model.lifecycle import State
from rota.model.principal import Principal
from rota.store.values import JobCursor, JobFilter

# Conditions on fields of JobFilter. `{}` is the value, `{owner}` the owner whose rows are seen, `{schema}` the name of
# PostgreSQL's schema.
SHARED = {
    "queue": "queue = {}",
    "created_after": "created_at >= {}",
    "created_before": "created_at < {}",
    "ended_after": "finished_at >= {}",
    "ended_before": "finished_at < {}",
    "group": "error_group = {}",
    "schedule": "id IN (SELECT f.job_id FROM {schema}fires f WHERE f.owner = {owner} AND f.name = {})",
}


class Dialect(NamedTuple):
    mark: str  # of a parameter
    conditions: Mapping[str, str]
    values: Mapping[str, Callable[[Any], Any]]  # conversions of values
    dead: str = "state = 'failed'"  # the condition of dead letters


class Search(NamedTuple):
    condition: str
    order: str
    values: list[Any]


def search(dialect: Dialect, who: Principal, query: JobFilter, schema: str = "") -> Search:
    values: list[Any] = []

    def mark(value: Any) -> str:
        values.append(value)
        return dialect.mark.format(len(values))

    owner = "f.owner" if who.sees is None else mark(who.sees)
    conditions = [] if who.sees is None else [f"owner = {owner}"]
    if query.states is not None:
        conditions.append(dialect.dead if query.by_end else _in_states(query.states))
    if query.group is not None and not query.by_end:
        conditions.append(dialect.dead)  # only dead letters have a group, and an index by it
    for name, text in {**SHARED, **dialect.conditions}.items():
        if (given := getattr(query, name)) is not None:
            value = dialect.values[name](given) if name in dialect.values else given
            conditions.append(text.format(mark(value), owner=owner, schema=schema))
    if query.after is not None:
        conditions.append(_behind(query, query.after, mark))
    order = "finished_at DESC, id DESC" if query.by_end else "id DESC"
    return Search(" AND ".join(conditions) or "true", order, values)


def groups(dialect: Dialect, who: Principal, query: JobFilter, table: str, schema: str = "") -> tuple[str, list[Any]]:
    """The groups of errors of the dead letters that fit: id, task, count, first and last end, an example. `query.after`
    names a group and its last end."""
    dead = msgspec.structs.replace(query, states=(State.FAILED,), after=None)
    condition, _, values = search(dialect, who, dead, schema)
    behind = ""
    if query.after is not None:
        values += [query.after.ended_at, query.after.id]
        end, group = (dialect.mark.format(len(values) - back) for back in (1, 0))
        behind = f"HAVING (max(finished_at), error_group) < ({end}, {group})"
    text = (
        "SELECT error_group, max(task), count(*), min(finished_at), max(finished_at), max(CAST(id AS text)) "  # noqa: S608
        f"FROM {schema}{table} WHERE {condition} AND error_group IS NOT NULL GROUP BY error_group {behind} "
        f"ORDER BY max(finished_at) DESC, error_group DESC LIMIT {query.limit:d}"
    )
    return text, values


def _in_states(states: Sequence[State]) -> str:
    """Literals, not parameters: partial indexes of SQLite only match literals, and `=` where they say so."""
    names = [f"'{State(state).value}'" for state in states]
    return f"state = {names[0]}" if len(names) == 1 else f"state IN ({', '.join(names) or 'NULL'})"


def _behind(query: JobFilter, cursor: JobCursor, mark: Callable[[Any], str]) -> str:
    last = mark(cursor.id)
    if not query.by_end:
        return f"id < {last}"
    end = mark(cursor.ended_at)
    return f"(finished_at, id) < ({end}, {last})"
