"""Conditions on jobs in the words of PostgreSQL: `j` is the row of the job, in `jobs` or in `history`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rota.store.search.translation import Dialect, Json, Mark

_LAST = "(SELECT {} FROM rota.attempts a WHERE a.job = j.id {} ORDER BY a.fence DESC LIMIT 1)"
_HERE = "j.outcome IS NOT NULL AND j.started_at IS NOT NULL"  # the last attempt is in the row of the ended job
_COUNTS = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)


def _told(error: str, name: str) -> str:
    """A part of an error; texts that are no error were written by hand."""
    otherwise = error if name == "message" else "'unknown'"
    proper = " AND ".join(f"jsonb_typeof(rota.json_at({error}, '{{{one}}}')) = 'string'" for one in ("type", "message"))
    return f"CASE WHEN {proper} THEN rota.json_at({error}, '{{{name}}}') #>> '{{}}' ELSE {otherwise} END"


def _of_error(ended: bool, name: str) -> str:
    """A part of the last error, as `rows._error` finds it."""
    before = _LAST.format(_told("a.error", name), "AND a.error IS NOT NULL")
    if not ended:
        return before
    here = f"CASE WHEN {_HERE} AND j.error IS NOT NULL THEN {_told('j.error', name)} END"
    aside = "coalesce(nullif(j.reason, ''), 'set aside')" if name == "message" else "'rota.SetAside'"
    failed = f"CASE WHEN j.state = 'failed' THEN {aside} END"
    return f"CASE WHEN j.state <> 'succeeded' THEN coalesce({here}, {before}, {failed}) END"


def _between(start: str, end: str) -> str:
    return f"CASE WHEN j.{end} >= j.{start} THEN j.{end} - j.{start} END"


_BOTH = {
    "id": "j.id::text",
    "name": "(SELECT nullif(m.name, '') FROM rota.members m WHERE m.job = j.id)",
    "user": "j.owner",
    **{name: f"j.{name}" for name in (
        "state", "kind", "queue", "task", "priority", "failures", "crashes", "interruptions", "replays", "reason",
        "key", "args", "meta",
    )},
    "created": "j.created_at",
    "due": "j.run_at",
    "started": "j.started_at",
    "expires": "j.expires_at",
    "waited": _between("run_at", "started_at"),
    "schedule": "(SELECT f.name FROM rota.fires f WHERE f.job_id = j.id LIMIT 1)",
}  # fmt: skip
_LIVING = _BOTH | {
    "finished": "NULL::bigint",
    "took": "NULL::bigint",
    "node": "coalesce((SELECT n.id FROM rota.nodes n WHERE n.incarnation = j.node), j.node)",
    "tries": "CASE WHEN j.state = 'running' AND j.started_at IS NOT NULL THEN j.tries "
    f"ELSE coalesce({_LAST.format('a.number', '')}, 0) END",
    "exit": _LAST.format("a.exit_code", ""),
    "error": _of_error(False, "message"),
    "error_type": _of_error(False, "type"),
    "group": "NULL::text",
    "result": "NULL::text",
}
_ENDED = _BOTH | {
    "finished": "j.finished_at",
    "took": _between("started_at", "finished_at"),
    "node": "NULL::text",
    "tries": f"CASE WHEN {_HERE} THEN j.tries ELSE coalesce({_LAST.format('a.number', '')}, 0) END",
    "exit": f"CASE WHEN {_HERE} THEN j.exit_code ELSE {_LAST.format('a.exit_code', '')} END",
    "error": _of_error(True, "message"),
    "error_type": _of_error(True, "type"),
    "group": "j.error_group",
    "result": f"CASE WHEN j.state = 'succeeded' THEN CASE WHEN {_HERE} THEN j.result "
    f"ELSE {_LAST.format('a.result', '')} END END",
}


def _json(column: str, path: tuple[str, ...], mark: Mark) -> Json | None:
    """PostgreSQL counts from the end of an array by negative numbers, and reads 01 as 1; queries don't."""
    if any(_COUNTS.fullmatch(part) and (part != part.strip() or not part.isdigit() or part != str(int(part)))
           for part in path):  # fmt: skip
        return None
    value = f"rota.json_at({column}, {mark(list(path))}::text[])"

    def of(kind: str, as_type: str = "") -> str:
        return f"CASE jsonb_typeof({value}) WHEN '{kind}' THEN ({value} #>> '{{}}'){as_type} END"

    return Json(
        f"coalesce(jsonb_typeof({value}), 'null') = 'null'", of("string"), of("number", "::numeric"),
        of("boolean", "::boolean"), lambda given: f"{mark(repr(given))}::text::numeric",
        lambda given: "true" if given else "false",
    )  # fmt: skip


def _pattern(glob: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", glob).replace("*", "%").replace("?", "_")


def _dialect(fields: Mapping[str, str]) -> Dialect:
    return Dialect(
        fields=fields,
        labels="EXISTS (SELECT FROM jsonb_array_elements_text("
        "CASE jsonb_typeof(rota.json_at(j.requirements, '{{labels}}')) WHEN 'array' "
        "THEN rota.json_at(j.requirements, '{{labels}}') ELSE '[]' END) AS l(value) WHERE {})",
        workflows="EXISTS (SELECT FROM rota.members m LEFT JOIN rota.workflows w ON w.id = m.workflow "
        "WHERE m.job = j.id AND ({}))",
        workflow_id="m.workflow::text",
        member="EXISTS (SELECT FROM rota.members m WHERE m.job = j.id)",
        secretive="position('\"secrets\"' IN j.spec) > 0",
        like=lambda column, mark: f"{column} LIKE {mark}",
        pattern=_pattern,
        has=lambda column, mark: f"position({mark} IN rota.folded({column})) > 0",
        text=lambda mark: f"{mark}::text",
        number=lambda mark: f"{mark}::bigint",
        by_code_points=lambda column: f'({column}) COLLATE "C"',
        json=_json,
    )


LIVING, ENDED = _dialect(_LIVING), _dialect(_ENDED)
