"""Examples of bodies in the document, by the names of their routes. Tests check each against the document's own schema,
and send it to a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COMMAND = {"command": ["tar", "-czf", "/backup/home.tgz", "/home"], "timeout": "1h", "retries": 2}

EXAMPLES: Mapping[str, Any] = {
    "submit_jobs": {"command": ["echo", "hello"], "queue": "mail", "delay": "10s", "key": "hello-7"},
    "cancel_job": {"reason": "the file is not needed any more"},
    "set_priority": {"priority": 2},
    "cancel_jobs": {"queue": "mail", "dry_run": True},
    "retry_jobs": {"q": "state:failed finished>-1h", "task": "mail.*", "limit": 100},
    "set_priorities": {"label": "urgent", "priority": 1},
    "replay_all_dead": {"error": "timeout", "older_than": "1h"},
    "purge_all_dead": {"ended_before": "2027-01-01T00:00:00Z", "dry_run": True},
    "submit_workflow": {
        "name": "nightly",
        "jobs": [{"name": "rows", "command": ["true"]}, {"name": "load", "command": ["true"], "after": ["rows"]}],
    },
    "cancel_workflow": {"reason": "the source is down"},
    "retry_workflow": {},
    "replay_workflow": {},
    "preview_schedule": {"cron": "0 3 * * *", "tz": "Europe/Berlin", "count": 3},
    "put_schedule": {"cron": "0 3 * * *", "tz": "Europe/Berlin", "overlap": "skip", "job": _COMMAND},
    "pause_schedule": {"note": "until Monday"},
    "backfill_schedule": {"from": "2027-01-01T00:00:00Z", "to": "2027-01-03T00:00:00Z", "dry_run": True},
    "put_calendar": {"dates": ["2027-12-24", "2027-12-25"]},
    "close_gate": {"queue": "mail", "reason": "the server is down", "for": "1h"},
    "set_limit": {"concurrency": 5, "rate": "60/1m"},
    "pause_queue": {"note": "maintenance"},
    "set_queue": {"step": "5m", "feedback": {"levels": 3}},
    "add_user": {"name": "carol", "quotas": {"submissions": "600/1m", "waiting": 10_000}},
    "change_user": {"quotas": {"waiting": None}},
    "add_key": {"user": "carol", "role": "submitter", "queues": ["mail*"], "allow": ["commands"], "expires": "90d"},
    "rotate_key": {"overlap": "24h"},
}
