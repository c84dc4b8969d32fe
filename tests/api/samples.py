"""For every route, requests that name the things of a user in all places where a request can name something.

The first one of each route succeeds for the owner of the things. A new route without samples makes a test fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from rota.api.examples import EXAMPLES
from rota.api.pages import cursor_of
from rota.api.routes import Route
from rota.model.job import Ref
from rota.model.lifecycle import JobEvent
from rota.model.outcome import Ending, Settlement
from rota.model.times import HOUR, MINUTE, SECOND
from rota.store.values import Chunk, Note
from tests.api import wire_values as wire
from tests.api.seeds import COMMAND, HOLDER, Things


class Sample(msgspec.Struct, frozen=True):
    """`path`: the value of the part that the path names; `query`: a parameter may have a list."""

    path: str = ""
    query: dict[str, Any] = {}
    body: Any = None

    def target(self, route: Route) -> str:
        path = route.path.format(**dict.fromkeys(route.parts, self.path))
        return f"{path}?{urlencode(self.query, doseq=True)}" if self.query else path


def q(path: str = "", /, **query: Any) -> Sample:
    return Sample(path, query)


def b(path: str = "", /, **body: Any) -> Sample:
    return Sample(path, {}, body)


def example(name: str, path: str = "") -> Sample:
    return Sample(path, {}, EXAMPLES[name])


Samples = Callable[[Things], list[Sample]]


def _searches(t: Things, **more: Any) -> list[Sample]:
    """Conditions on jobs, each of which names something."""
    named = [{"workflow": t.workflow}, {"workflow": t.workflow_name}, {"schedule": t.schedule}, {"label": t.label}]
    return [q(limit=5, **one, **more) for one in [*named, {"queue": t.queue}, {"task": "tru*"}]]


def _by_query(t: Things) -> list[Sample]:
    """Queries that name something."""
    named = {"id": t.failed, "workflow": t.workflow_name, "schedule": t.schedule, "label": t.label, "queue": t.queue}
    return [q(q=f"{field}:{value}") for field, value in named.items()] + [q(q=f'"{t.label}"')]


def _changes(t: Things, **more: Any) -> list[Sample]:
    named: list[dict[str, Any]] = [
        {"ids": [t.ready, t.failed, t.dead]}, {"workflow": t.workflow}, {"workflow": t.workflow_name},
        {"schedule": t.schedule}, {"label": t.label}, {"queue": t.queue}, {"ids": [t.done], "dry_run": True},
        {"q": f"label:{t.label} OR queue:{t.queue}", "dry_run": True}, {"q": f"workflow:{t.workflow}"},
    ]  # fmt: skip
    return [b(**one, **more) for one in named]


PEOPLE: dict[str, Samples] = {
    "live": lambda t: [q()],
    "ready": lambda t: [q()],
    "get_openapi": lambda t: [q()],
    "get_server": lambda t: [q()],
    "get_wakes": lambda t: [q(topics="r")],
    "get_me": lambda t: [q()],
    # -- jobs
    "submit_jobs": lambda t: [
        b(**COMMAND),
        b(**COMMAND, after=[t.done]),
        b(**COMMAND, after=[t.ready]),
        b(jobs=[COMMAND, COMMAND | {"after": [t.blocked]}]),
        b(task="hello", results={"name": t.done}),
        b(**COMMAND, limits={t.limit: 1}),
        b(**COMMAND, labels=[t.label]),
    ],
    "list_jobs": lambda t: [q(), *_searches(t), *_by_query(t), q(error=t.label), q(q="took>1d", sort="-took")],
    "count_jobs": lambda t: [q(), q(q=f"label:{t.label}"), q(queue=t.queue), q(workflow=t.workflow_name)],
    "get_facets": lambda t: [q(), *_by_query(t), q(schedule=t.schedule)],
    "count_dead": lambda t: [q(), *_by_query(t)],
    "get_job": lambda t: [
        *(q(one) for one in (t.ready, t.failed, t.done, t.later, t.blocked, t.running, t.ready[:8])),
        q(t.running, fresh="1"),
    ],
    "list_attempts": lambda t: [q(t.failed), q(t.ready)],
    "explain_job": lambda t: [q(one) for one in (t.ready, t.failed, t.done, t.later, t.blocked, t.running)],
    "get_relations": lambda t: [q(t.blocked), q(t.ready)],
    "get_output": lambda t: [q(t.failed), q(t.failed, attempt=1), q(t.failed, attempt=7), q(t.failed, cursor=t.output)],
    "cancel_job": lambda t: [b(t.ready, reason="r"), q(t.later), q(t.done)],
    "retry_job": lambda t: [q(t.failed), q(t.done), q(t.later)],
    "set_priority": lambda t: [b(t.ready, priority=1), b(t.done, priority=1)],
    "cancel_jobs": lambda t: _changes(t, reason="r"),
    "retry_jobs": lambda t: _changes(t),
    "set_priorities": lambda t: _changes(t, priority=1),
    "list_dead": lambda t: [q(), *_searches(t), *_by_query(t), q(sort="task")],
    "list_error_groups": lambda t: [q(), *_searches(t), q(q=f"label:{t.label}"), q(group="0123456789ab")],
    "get_dead": lambda t: [q(t.dead), q(t.ready)],
    "replay_dead": lambda t: [q(t.dead), q(t.done)],
    "purge_dead": lambda t: [q(t.dead), q(t.ready)],
    "replay_all_dead": lambda t: _changes(t),
    "purge_all_dead": lambda t: _changes(t),
    "wait_for_job": lambda t: [q(t.done, timeout="0s"), q(t.ready, timeout="0s")],
    "follow_output": lambda t: [q(t.failed), q(t.failed, after="1.0")],
    # -- output of many jobs
    "search_output": lambda t: [q(), q(q=f"id:{t.failed}"), q(q=f"task:{t.failed} user:{t.user}", before=1, after=2)],
    "stream_search": lambda t: [q(), q(q=f"workflow:{t.workflow}"), q(limit=5_000)],
    "tail_logs": lambda t: [q(q=f"id:{t.failed}"), q(q=f"task:true user:{t.user}")],
    # -- workflows
    "submit_workflow": lambda t: [
        example("submit_workflow"),
        b(jobs=[COMMAND | {"name": "a", "after": [t.done]}]),
        b(jobs=[COMMAND | {"name": "a"}], name=t.workflow_name),
    ],
    "list_workflows": lambda t: [q(), q(name=t.workflow_name)],
    "get_workflow": lambda t: [q(t.workflow), q(t.workflow_name), q(t.workflow[:8]), q(t.ended_workflow)],
    "cancel_workflow": lambda t: [b(t.workflow, reason="r"), q(t.workflow_name)],
    "retry_workflow": lambda t: [
        b(t.ended_workflow),
        b(t.workflow, start=t.blocked),
        b(t.ended_workflow, start=t.done),
    ],
    "replay_workflow": lambda t: [b(t.ended_workflow), b(t.ended_workflow, start=t.blocked)],
    "wait_for_workflow": lambda t: [q(t.ended_workflow, timeout="0s"), q(t.workflow, timeout="0s")],
    # -- schedules
    "list_schedules": lambda t: [q(), q(app="none")],
    "get_schedule": lambda t: [q(t.schedule)],
    "put_schedule": lambda t: [
        example("put_schedule", t.schedule),
        b(f"{t.schedule}-x", every="1h", job=COMMAND, exclude=t.calendar),
    ],
    "remove_schedule": lambda t: [q(t.schedule)],
    "preview_schedule": lambda t: [
        example("preview_schedule"),
        b(every="1d", exclude=t.calendar),
        b(every="1d", only=t.calendar),
    ],
    "next_fires": lambda t: [q(t.schedule, count=3)],
    "list_fires": lambda t: [q(t.schedule), q(t.schedule, cursor=cursor_of(1, {"name": t.schedule}))],
    "pause_schedule": lambda t: [b(t.schedule, note="n"), q(t.schedule)],
    "resume_schedule": lambda t: [q(t.schedule)],
    "fire_schedule": lambda t: [q(t.schedule)],
    "backfill_schedule": lambda t: [example("backfill_schedule", t.schedule)],
    "list_calendars": lambda t: [q()],
    "get_calendar": lambda t: [q(t.calendar)],
    "put_calendar": lambda t: [example("put_calendar", t.calendar)],
    "remove_calendar": lambda t: [q(t.calendar)],
    # -- gates, limits, queues
    "list_gates": lambda t: [q()],
    "get_gate": lambda t: [q(t.gate)],
    "close_gate": lambda t: [
        example("close_gate"),
        b(user=t.user, queue=t.queue, reason="r"),
        b(label=t.label, queue=t.queue, reason="r"),
    ],
    "open_gate": lambda t: [q(t.gate)],
    "list_limits": lambda t: [q(), q(key=t.limit)],
    "get_limit": lambda t: [q(t.limit)],
    "set_limit": lambda t: [example("set_limit", t.limit)],
    "remove_limit": lambda t: [q(t.limit)],
    "list_locks": lambda t: [q()],
    "free_lock": lambda t: [q(t.lock)],
    "list_queues": lambda t: [q()],
    "get_queue": lambda t: [q(t.queue)],
    "pause_queue": lambda t: [b(t.queue, note="n"), q(t.queue)],
    "resume_queue": lambda t: [q(t.queue)],
    "set_queue": lambda t: [example("set_queue", t.queue)],
    "list_flows": lambda t: [q()],
    "list_nodes": lambda t: [q(), q(past="true")],
    "list_tasks": lambda t: [q()],
    "get_task": lambda t: [q("hello")],
    # -- events and statistics
    "watch_events": lambda t: [
        q(format="json"),
        *(q(format="json", job=one) for one in (t.ready, t.running, t.failed)),
        *(q(format="json", **one) for one in ({"workflow": t.workflow}, {"workflow": t.workflow_name})),
        *(q(format="json", **one) for one in ({"schedule": t.schedule}, {"queue": t.queue}, {"task": "true"})),
        q(format="json", after="0", kind=["job.*"], job=t.done),
    ],
    "get_statistics": lambda t: [q(), q(queue=t.queue), q(mine="true", task="true")],
    "list_queue_statistics": lambda t: [q(), q(queue=t.queue)],
    "get_history": lambda t: [q(), q(queue=t.queue, step="1m", since="10m")],
    "complete_query": lambda t: [
        q(text="state:fa"),
        *(q(text=f"{field}:") for field in ("label", "workflow", "queue", "schedule", "group", "task")),
        Sample("", {"text": "leve", "at": 3, "in": "output"}),
    ],
    # -- people
    "list_users": lambda t: [q()],
    "add_user": lambda t: [b(name=f"new-{t.calendar}"), b(name=t.user)],
    "get_user": lambda t: [q(t.user)],
    "change_user": lambda t: [b(t.user, quotas={"waiting": 1_000_000})],
    "remove_user": lambda t: [q(t.user)],
    "list_keys": lambda t: [q(), q(user=t.user, past="true")],
    "add_key": lambda t: [b(user=t.user, role="viewer")],
    "rotate_key": lambda t: [b(t.key, overlap="1h")],
    "revoke_key": lambda t: [q(t.key)],
    "list_audit": lambda t: [q(), q(user=t.user)],
}


def _queries(t: Things) -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = [
        {"ids": [t.ready, t.failed]}, {"workflow": t.workflow}, {"label": t.label}, {"schedule": t.schedule},
        {"queue": t.queue}, {"where": {"type": "term", "field": "workflow", "how": "is", "value": t.workflow_name}},
        {"where": {"type": "text", "seek": "phrase", "text": t.label}},
    ]  # fmt: skip
    return [{"query": one} for one in named]


def _scans(t: Things) -> list[dict[str, Any]]:
    """Scans for output."""
    return [{"scan": one} for one in ({}, {"jobs": [t.failed, t.running]}, {"tasks": ["tru*"]})]


# The arguments of rota's own clients, by verb.
CALLS: dict[str, Callable[[Things], list[dict[str, Any]]]] = {
    "acquire_lock": lambda t: [{"name": t.lock, "holder": HOLDER, "ttl": HOUR}],
    "add_key": lambda t: [
        {
            "new": {
                "id": wire.new_id()[-12:],
                "hash": wire.new_id().replace("-", "") * 2,
                "user": t.user,
                "role": "viewer",
            }
        }
    ],
    "advance": lambda t: [{"steps": [wire.advance(t.user, t.schedule, t.revision)]}],
    "audit": lambda t: [{"query": {}}, {"query": {"user": t.user}}],
    "calendars": lambda t: [{"owner": t.user}, {"owner": t.user, "names": [t.calendar]}],
    "cancel": lambda t: [{"ids": [t.ready, t.done, t.running], "reason": "r"}],
    "close_gate": lambda t: [{"new": {"id": wire.new_id(), "match": {"queue": "x"}, "effect": "pause", "reason": "r"}}],
    "count": _queries,
    "counted": _queries,
    "counts": lambda t: [{}],
    "find_lines": lambda t: [
        {"query": {}},
        {"query": {"where": {"type": "text", "seek": "word", "text": "refused"}, "before": 2, "limit": 5}},
        {"query": {"place": {"at": 1 << 60}}},
    ],
    "error_groups": lambda t: [{"query": {}}, {"query": {"queue": t.queue}}],
    "events": lambda t: [{"after": 0, "limit": 1000}],
    "facets": _queries,
    "fires": lambda t: [{"owner": t.user, "name": t.schedule, "before": 1 << 60, "limit": 9}],
    "flows": lambda t: [{"limit": 9}],
    "free_lock": lambda t: [{"name": t.lock}],
    "gates": lambda t: [{}],
    "glance": lambda t: [{"ids": [one]} for one in (t.ready, t.failed, t.blocked, t.running)],
    "get_many": lambda t: [{"ids": [one]} for one in (t.ready, t.failed, t.blocked, t.running)],
    "history": lambda t: [
        {"window": {"span": HOUR, "step": MINUTE}},
        {"window": {"span": HOUR, "step": MINUTE, "queue": t.queue}},
    ],
    "hurry": lambda t: [{"ids": [t.later, t.done]}],
    "keys": lambda t: [{}, {"user": t.user, "past": True}],
    "limits": lambda t: [{}, {"keys": [t.limit]}],
    "locks": lambda t: [{}, {"names": [t.lock]}],
    "make_fires": lambda t: [{"name": t.schedule, "kind": "manual", "fires": [wire.fire()]}],
    "make_known": lambda t: [{"tasks": [{"name": "mail"}]}],
    "nodes": lambda t: [{"past": True}],
    "offering": lambda t: [{}],
    "open_gate": lambda t: [{"gate_id": t.gate}],
    "outbox_span": lambda t: [{}],
    "output": lambda t: [{"job_id": t.failed, "after": {}, "limit": 9}],
    "page": lambda t: [*_queries(t), {"query": {"after": {"id": t.failed}}}],
    "parents": lambda t: [{"job_id": t.blocked}],
    "pause_queue": lambda t: [{"name": t.queue, "note": "n"}],
    "pause_schedule": lambda t: [{"name": t.schedule, "note": "n"}],
    "purge": lambda t: [{"ids": [t.dead, t.done]}],
    "put_calendar": lambda t: [{"calendar": {"name": t.calendar, "dates": ["2027-01-01"]}}],
    "put_schedule": lambda t: [
        {"new": wire.schedule(t.user, t.schedule), "revision": t.revision},
        {"new": wire.schedule(t.user, t.schedule), "revision": None},
    ],
    "put_user": lambda t: [{"name": f"other-{t.calendar}", "quotas": {}, "new": True}],
    "queues": lambda t: [{}],
    "quota_use": lambda t: [{}],
    "release_lock": lambda t: [{"name": t.lock, "holder": HOLDER}, {"name": t.lock, "holder": "x", "fence": 5}],
    "remove_calendar": lambda t: [{"name": t.calendar}],
    "remove_limit": lambda t: [{"key": t.limit}],
    "remove_schedule": lambda t: [{"name": t.schedule, "revision": t.revision, "before": 1 << 60, "skips": []}],
    "remove_user": lambda t: [{"name": t.user}],
    "replay": lambda t: [{"ids": [t.failed, t.done], "again": True}],
    "renew_lock": lambda t: [{"name": t.lock, "holder": HOLDER, "fence": 5, "ttl": SECOND}],
    "reprioritise": lambda t: [{"ids": [t.ready, t.done], "priority": 1}],
    "resolve": lambda t: [{"part": t.ready}, {"part": t.ready[:-2]}],
    "resolve_workflow": lambda t: [{"part": t.workflow}, {"part": t.workflow_name}, {"part": t.workflow[:-2]}],
    "resume_queue": lambda t: [{"name": t.queue}],
    "resume_schedule": lambda t: [{"name": t.schedule, "revision": t.revision, "since": 5}],
    "revoke_key": lambda t: [{"key_id": t.key}],
    "rotate_key": lambda t: [
        {
            "key_id": t.key,
            "new_id": wire.new_id()[-12:],
            "new_hash": wire.new_id().replace("-", "") * 2,
            "overlap": 0,
            "expires_at": None,
        }
    ],
    "segment_extent": _scans,
    "segments": _scans,
    "schedules": lambda t: [
        {"query": {}},
        {"query": {"names": [t.schedule]}},
    ],
    "set_aside_schedule": lambda t: [{"owner": t.user, "name": t.schedule, "revision": t.revision, "why": "w"}],
    "set_feedback": lambda t: [{"name": t.queue, "rule": None}],
    "set_limit": lambda t: [{"limit": {"key": t.limit, "concurrency": 3, "rate": None}}],
    "set_step": lambda t: [{"name": t.queue, "step": None}],
    "statistics": lambda t: [{"window": {"span": HOUR}}, {"window": {"span": HOUR, "queue": t.queue}}],
    "submit": lambda t: [{"orders": [[wire.order()]]}, {"orders": [[wire.order(t.ready)]]}],
    "tasks": lambda t: [{}],
    "undeclare_schedules": lambda t: [{"app": "app", "read": [[t.schedule, t.revision]]}],
    "unsealed": lambda t: [
        *_scans(t),
        {"scan": {"after": {"kept_at": 0, "job_id": t.failed, "fence": 1, "number": 0}}},
        {"scan": {"after": {"kept_at": 1 << 60, "job_id": t.failed, "fence": 1, "number": 0}, "newest_first": True}},
    ],
    "users": lambda t: [{}, {"names": [t.user]}],
    "values": lambda t: [
        {"field": field, "prefix": prefix, "limit": 9}
        for field, prefix in (("label", t.label), ("queue", t.queue[:-1]), ("schedule", t.schedule), ("label", ""))
    ],
    "waiting": lambda t: [{"job_id": t.ready}, {"job_id": t.blocked}],
    "watch": lambda t: [{}],
    "workflow": lambda t: [{"workflow_id": t.workflow}],
    "workflows": lambda t: [{"query": {}}, {"query": {"ids": [t.workflow]}}, {"query": {"name": t.workflow_name}}],
}


def _worker(t: Things, **more: Any) -> Sample:
    return b(incarnation=t.worker, **more)


def _held(t: Things, **more: Any) -> Sample:
    return _worker(t, tickets=[t.ticket], **more)


def _about(kind: type[msgspec.Struct], t: Things, **more: Any) -> list[Any]:
    """A value about the running attempt."""
    return [msgspec.to_builtins(kind(job_id=t.running, fence=t.fence, **more))]


WORKERS: dict[str, Samples] = {
    "worker_register": lambda t: [
        _worker(t, id=t.worker, roles=["worker"], queues={"q": 1}, version="1.0", lease=10 * SECOND)
    ],
    "worker_renew": lambda t: [_worker(t)],
    "worker_leave": lambda t: [_worker(t)],
    "worker_claim": lambda t: [_worker(t, claim="c", wants={"default": 1}, kinds=["command"], start={"default": 1})],
    "worker_start": lambda t: [_held(t, refs=_about(Ref, t))],
    "worker_hand_back": lambda t: [_held(t, refs=_about(Ref, t))],
    "worker_finish": lambda t: [
        _held(t, settlements=_about(Settlement, t, event=JobEvent.SUCCEED, ending=Ending.SUCCEEDED))
    ],
    "worker_append_output": lambda t: [
        _held(t, chunks=_about(Chunk, t, number=0, written_at=1, stream="stdout", body=b"hi"))
    ],
    "worker_note": lambda t: [_held(t, notes=_about(Note, t, number=1, progress=None, state="{}"))],
    "worker_parents": lambda t: [_worker(t, ref=_about(Ref, t)[0], ticket=t.ticket)],
    "worker_charge": lambda t: [_worker(t, used=[["q", "flow", 5]])],
    "open_line": lambda t: [q(incarnation=t.worker, line="first")],
}


def samples(route: Route, things: Things) -> list[Sample]:
    """KeyError: the route is new, and has no samples yet."""
    if route.tag == "calls":
        return [Sample(body=given) for given in CALLS[route.name.removeprefix("call_")](things)]
    return (PEOPLE.get(route.name) or WORKERS[route.name])(things)
