"""One job with a value in every field, and a line that it printed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rota.model.job import AttemptInfo, JobInfo, Kind
from rota.model.lifecycle import State
from rota.model.outcome import Ending, Problem
from rota.model.query.evaluate import OutputLine, fits
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.model.requirements import Requirements
from rota.model.times import as_instant

NOW = datetime(2027, 1, 2, 12, tzinfo=UTC)
DUE = NOW - timedelta(hours=1)
STARTED = DUE + timedelta(seconds=30)
FINISHED = STARTED + timedelta(minutes=6)
JOB_ID = "01942f0c-0000-7000-8000-00000000abcd"
ARGS = {"user_id": 7, "name": "Ann Bee", "day": "2027-01-01", "items": [{"n": 2.5}, None], "on": True, "no": None}


def job(**changes: Any) -> JobInfo:
    given: dict[str, Any] = {
        "id": JOB_ID, "owner": "ann", "task": "mail.send", "kind": Kind.FUNCTION, "spec": {}, "queue": "default",
        "args": ARGS,
        "priority": 5, "state": State.FAILED, "reason": "Connection timeout", "run_at": DUE, "created_at": DUE,
        "started_at": STARTED, "finished_at": FINISHED, "expires_at": None, "failures": 2, "node": "host-1",
        "key": "order 1", "schedule": "nightly", "workflow": "01942f0c-1111-7000-8000-000000000000", "name": "load",
        "requirements": Requirements(labels=("nightly", "eu/west")), "meta": {"trace": "ff"}, "result": None,
        "attempts": [
            AttemptInfo(1, 1, "host-2", DUE, DUE, Ending.FAILED, 1),
            AttemptInfo(2, 3, "host-1", STARTED, FINISHED, Ending.FAILED, 2),
        ],
        "error": Problem("builtins.TimeoutError", "Connection timeout after 5 s: smtp-1"),
    }  # fmt: skip
    return JobInfo(**{**given, **changes})


LINE = OutputLine("2027-01-02 ERROR connection refused (smtp_1)", as_instant(STARTED) + 5, "log", 2, "error")


def found(query: str, **changes: Any) -> bool:
    return fits(parse(query, as_instant(NOW)), job(**changes), workflow="import")


def printed(query: str, line: OutputLine = LINE) -> bool:
    return fits(parse(query, as_instant(NOW), Searched.OUTPUT), job(), "import", line)
