"""The groups of errors of the dead letters that fit a query."""

from __future__ import annotations

from rota.store.search.plain import Plain, conditions
from rota.store.search.statements import Statement
from rota.store.search.translation import Dialect
from rota.store.values import JobFilter


def groups(query: JobFilter, sees: str | None, plain: Plain, dialect: Dialect, dead: str, statement: Statement) -> str:
    """A query for id, task, count, first and last end, and an example. `dead`: FROM and WHERE for the dead letters `j`.
    `query.after` names a group and its last end."""
    mark = statement.mark
    fitting = ["j.error_group IS NOT NULL", *conditions(query, plain, dialect, mark).parts]
    fitting += [] if sees is None else [f"j.owner = {mark(sees)}"]
    behind = ""
    if query.after is not None:
        last = f"{mark(query.after.ended_at)}, {mark(query.after.id)}"
        behind = f"HAVING (max(j.finished_at), j.error_group) < ({last})"
    return (
        "SELECT j.error_group, max(j.task), count(*), min(j.finished_at), max(j.finished_at), max(CAST(j.id AS text)) "  # noqa: S608
        f"FROM {dead} AND {' AND '.join(fitting)} GROUP BY j.error_group {behind} "
        f"ORDER BY max(j.finished_at) DESC, j.error_group DESC LIMIT {query.limit:d}"
    )
