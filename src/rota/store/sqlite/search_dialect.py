"""Conditions on jobs in the words of SQLite: `j` is the row of the job."""

from __future__ import annotations

from rota.store.search.translation import Dialect, Json, Mark

_LAST = "(SELECT {} FROM attempts a WHERE a.job = j.seq {} ORDER BY a.fence DESC LIMIT 1)"
_FAILED = "a.error IS NOT NULL"


def _payload(name: str) -> str:
    return f"(SELECT p.{name} FROM payloads p WHERE p.seq = j.seq)"  # noqa: S608


def _of_error(name: str, otherwise: str, set_aside: str) -> str:
    """A part of the last error, as `rows._error` finds it. Texts that are no error were written by hand."""
    proper = " AND ".join(f"json_type(a.error, '$.{one}') = 'text'" for one in ("type", "message"))
    told = f"iif(json_valid(a.error) AND {proper}, a.error ->> '$.{name}', {otherwise})"
    found = _LAST.format(told, f"AND {_FAILED}")
    return f"CASE WHEN j.state <> 'succeeded' THEN coalesce({found}, iif(j.state = 'failed', {set_aside}, NULL)) END"


def _between(start: str, end: str) -> str:
    return f"CASE WHEN j.{end} >= j.{start} THEN j.{end} - j.{start} END"


FIELDS = {
    "id": "j.id",
    "name": "(SELECT nullif(m.name, '') FROM members m WHERE m.job = j.id)",
    "user": "j.owner",
    **{name: f"j.{name}" for name in (
        "state", "kind", "queue", "task", "priority", "failures", "crashes", "interruptions", "replays", "reason",
    )},
    "created": "j.created_at",
    "due": "j.run_at",
    "started": "j.started_at",
    "finished": "j.finished_at",
    "expires": "j.expires_at",
    "took": _between("started_at", "finished_at"),
    "waited": _between("run_at", "started_at"),
    "key": _payload("key"),
    "schedule": "(SELECT f.name FROM fires f WHERE f.job_id = j.id LIMIT 1)",
    "node": "coalesce((SELECT n.id FROM nodes n WHERE n.incarnation = j.node), j.node)",
    "tries": "iif(j.state = 'running' AND j.started_at IS NOT NULL, j.tries, "
    f"coalesce({_LAST.format('a.number', '')}, 0))",
    "exit": _LAST.format("a.exit_code", ""),
    "error": _of_error("message", "a.error", "coalesce(nullif(j.reason, ''), 'set aside')"),
    "error_type": _of_error("type", "'unknown'", "'rota.SetAside'"),
    "group": "j.error_group",
    "args": _payload("args"),
    "meta": _payload("meta"),
    "result": f"iif(j.state = 'succeeded', {_LAST.format('a.result', '')}, NULL)",
}  # fmt: skip


def _json(column: str, path: tuple[str, ...], mark: Mark) -> Json | None:
    """Names that look like numbers may be places in arrays, and names with quotes have no path in SQLite."""
    if any(part.isdigit() or '"' in part or "\\" in part for part in path):
        return None
    place = mark("$" + "".join(f'."{part}"' for part in path))
    kind = f"CASE WHEN json_valid({column}) THEN json_type({column}, {place}) END"

    def of(kinds: str) -> str:
        return f"CASE WHEN {kind} IN ({kinds}) THEN json_extract({column}, {place}) END"

    return Json(
        f"coalesce({kind}, 'null') = 'null'", of("'text'"), of("'integer', 'real'"), of("'true', 'false'"),
        mark, lambda given: "1" if given else "0",
    )  # fmt: skip


SQLITE = Dialect(
    fields=FIELDS,
    labels="EXISTS (SELECT 1 FROM json_each(iif(json_valid(j.requirements), j.requirements, 'null'), '$.labels') l "
    "WHERE {})",
    workflows="EXISTS (SELECT 1 FROM members m LEFT JOIN workflows w ON w.id = m.workflow WHERE m.job = j.id AND ({}))",
    workflow_id="m.workflow",
    member="EXISTS (SELECT 1 FROM members m WHERE m.job = j.id)",
    secretive=f"instr({_payload('spec')}, '\"secrets\"') > 0",
    like=lambda column, mark: f"{column} GLOB {mark}",
    pattern=lambda glob: glob.replace("[", "[[]"),
    has=lambda column, mark: f"instr(lower({column}), {mark}) > 0",
    text=lambda mark: mark,
    number=lambda mark: mark,
    by_code_points=lambda column: column,
    json=_json,
)
