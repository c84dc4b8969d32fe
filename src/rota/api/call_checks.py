"""Checks of the arguments of each verb, when a client calls it through a server.

The decoder has checked the types. `CHECKS` has a function for each verb whose values have rules beyond that: the same
rules by which clients of the store check what people write. Bounds that every verb shares are checked for all: numbers
fit into 64 bits, and pages are of a size that a server can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from rota.api import received, received_schedules
from rota.clients.jobs import check_countable
from rota.clients.limits import gate_reason, queue_note
from rota.config import Settings
from rota.errors import InvalidInput
from rota.lines.words import BLOCK
from rota.model.access import Grant, user_name
from rota.model.access_keys import check_identity, check_new_key
from rota.model.feedback import Feedback, read_feedback
from rota.model.globs import glob_fits
from rota.model.job import queue_name
from rota.model.limits import Limit, concurrency, key_name, rate
from rota.model.locks import LONGEST_HOLDER, LONGEST_TTL, SHORTEST_TTL, lock_name
from rota.model.options import LONGEST_REASON, READERS, check_reason, task_name
from rota.model.query.check import check as check_query
from rota.model.query.fields import check_sort
from rota.model.quotas import quotas
from rota.model.rank import STRICT, priority
from rota.model.readers import printable, whole
from rota.model.task import TaskInfo
from rota.model.times import DAY, LATEST, LONGEST
from rota.orders import check_templates
from rota.store.admission import NewGate
from rota.store.log_store import MOST_JOBS, RawScan, SegmentScan
from rota.store.values import JobFilter

LARGEST_PAGE = 10_000
MOST_IDS = 10_000
MOST_TASKS = 10_000
LARGEST_ROOM = 64 << 20
MOST_WORDS = 1_000
MOST_BITS = 16  # of a word
_LARGEST = (1 << 63) - 1

Arguments = dict[str, Any]


class Sender(NamedTuple):
    """The key that the call came with, and the settings of the server."""

    grant: Grant
    settings: Settings


def check(verb: str, given: Arguments, sender: Sender) -> None:
    """Replaces arguments by what their readers make of them, or raises InvalidInput or NotAllowed."""
    for what, value in given.items():
        if what != "orders":  # each job has checks of its own
            _bounded(value, what)
    if (rule := CHECKS.get(verb)) is not None:
        rule(given, sender)


def _bounded(value: Any, what: str) -> None:
    """Numbers that the databases can hold; texts without NUL."""
    match value:
        case bool() | None | float() | bytes():
            return
        case int():
            if abs(value) > _LARGEST:
                raise InvalidInput(what, value, "a number of 64 bits")
            if what in ("limit", "query.limit"):
                whole(value, "limit", 0, LARGEST_PAGE)
        case str():
            if "\0" in value:
                raise InvalidInput(what, value, "a text without NUL characters")
        case Mapping():
            for name, part in value.items():
                _bounded(part, str(name))
        case msgspec.Struct():
            for name in value.__struct_fields__:
                _bounded(getattr(value, name), f"{what}.{name}")
        case list() | tuple():
            for part in value:
                _bounded(part, what)


# -- jobs ------------------------------------------------------------------------------------------------------------
def _orders(given: Arguments, sender: Sender) -> None:
    largest = sender.settings.max_args
    checked = [[received.job(one, largest) for one in order] for order in given["orders"]]
    for order in checked:
        sender.grant.check_orders(order)
    given["orders"] = checked


def _search(given: Arguments, sender: Sender) -> None:
    """Of a client, nothing of a tree is believed: neither its fields nor the types of its values."""
    query: JobFilter = given["query"]
    if query.sort is not None:
        check_sort(query.sort)
    if query.where is not None:
        given["query"] = msgspec.structs.replace(query, where=check_query(query.where))


def _groups(given: Arguments, sender: Sender) -> None:
    _search(given, sender)
    check_countable(given["query"].where)


def _ids(given: Arguments, sender: Sender) -> None:
    _at_most(given["ids"], "ids", MOST_IDS)


def _cancel(given: Arguments, sender: Sender) -> None:
    _ids(given, sender)
    check_reason(given["reason"])


def _reprioritise(given: Arguments, sender: Sender) -> None:
    _ids(given, sender)
    priority(given["priority"])


# -- searches of output ----------------------------------------------------------------------------------------------
def _scan(given: Arguments, sender: Sender) -> None:
    scan: SegmentScan | RawScan = given["scan"]
    whole(scan.limit, "limit", 1, LARGEST_PAGE)
    whole(scan.room, "room", 1, LARGEST_ROOM)
    for what, most in (("jobs", MOST_JOBS), ("tasks", MOST_IDS)):
        _at_most(getattr(scan, what) or (), what, most)
    if isinstance(scan, SegmentScan):
        whole(scan.look, "look", 1, LARGEST_PAGE)
        _at_most(scan.words, "words", MOST_WORDS)
        _at_most([word for group in scan.words for word in group], "words", MOST_WORDS)
        for word in (word for group in scan.words for word in group):
            _at_most(word.bits, "words", MOST_BITS)
            whole(word.block, "words", 0, (1 << 32) - 1)
            for bit in word.bits:
                whole(bit, "words", 0, BLOCK - 1)


def _at_most(given: Sized, what: str, most: int) -> None:
    if len(given) > most:
        raise InvalidInput(what, f"{len(given)} of them", f"at most {most:,} at a time")


# -- schedules -------------------------------------------------------------------------------------------------------
def _schedule(given: Arguments, sender: Sender) -> None:
    given["new"] = received_schedules.schedule(given["new"], sender.grant, sender.settings.max_args)


def _pause_schedule(given: Arguments, sender: Sender) -> None:
    check_reason(given["note"])


def _remove_schedule(given: Arguments, sender: Sender) -> None:
    given["skips"] = [received_schedules.skipped(one) for one in given["skips"]]


def _fires(given: Arguments, sender: Sender) -> None:
    received_schedules.asked_for(given["kind"])
    given["fires"] = received_schedules.fires(given["fires"], sender.grant, sender.settings.max_args)


def _advance(given: Arguments, sender: Sender) -> None:
    received_schedules.steps(given["steps"], sender.grant)


def _set_aside(given: Arguments, sender: Sender) -> None:
    given["why"] = given["why"][:LONGEST_REASON]


def _calendar(given: Arguments, sender: Sender) -> None:
    received_schedules.calendar(given["calendar"])


# -- gates, limits, queues -------------------------------------------------------------------------------------------
def _gate(given: Arguments, sender: Sender) -> None:
    new: NewGate = given["new"]
    received.identity(new.id, "gate")
    which = received.matching(new.match)
    if which.user not in (None, sender.grant.user):
        raise InvalidInput("user", which.user, f"{sender.grant.user!r}: a gate concerns its author's own jobs")
    received.span(new.until, "until", 0, LATEST)
    given["new"] = msgspec.structs.replace(new, match=which, reason=gate_reason(new.reason))


def _limit(given: Arguments, sender: Sender) -> None:
    limit: Limit = given["limit"]
    key_name(limit.key)
    if limit.concurrency is None and limit.rate is None:
        raise InvalidInput("limit", limit.key, "how many at once, how many starts per window, or both")
    if limit.concurrency is not None:
        concurrency(limit.concurrency, "at_once")
    if limit.rate is not None:
        rate(limit.rate)


def _key(given: Arguments, sender: Sender) -> None:
    key_name(given["key"])


def _queue(given: Arguments, sender: Sender) -> None:
    queue_name(given["name"])


def _pause_queue(given: Arguments, sender: Sender) -> None:
    _queue(given, sender)
    queue_note(given["note"])


def _step(given: Arguments, sender: Sender) -> None:
    _queue(given, sender)
    if given["step"] not in (None, STRICT):
        received.span(given["step"], "step", 0, DAY)


def _feedback(given: Arguments, sender: Sender) -> None:
    _queue(given, sender)
    rule: Feedback | None = given["rule"]
    if rule is not None:
        quantum, boost = timedelta(microseconds=rule.quantum), timedelta(microseconds=rule.boost)
        read_feedback(quantum, rule.levels, boost)


# -- locks -----------------------------------------------------------------------------------------------------------
def _lock(given: Arguments, sender: Sender) -> None:
    lock_name(given["name"])


def _holder(given: Arguments, sender: Sender) -> None:
    _lock(given, sender)
    printable(given["holder"], "holder", 1, LONGEST_HOLDER, f"a token of 1 to {LONGEST_HOLDER} characters")


def _term(given: Arguments, sender: Sender) -> None:
    _holder(given, sender)
    received.span(given["ttl"], "ttl", SHORTEST_TTL, LONGEST_TTL)


def _locks(given: Arguments, sender: Sender) -> None:
    _at_most(given["names"] or (), "names", MOST_IDS)


# -- tasks -----------------------------------------------------------------------------------------------------------
def _make_known(given: Arguments, sender: Sender) -> None:
    """Tasks that the key may not order are left out: an app describes all its tasks before it orders one."""
    tasks: Sequence[TaskInfo] = given["tasks"]
    _at_most(tasks, "tasks", MOST_TASKS)
    for one in tasks:
        _task(one)
    scope = sender.grant.tasks
    given["tasks"] = [one for one in tasks if not scope or any(glob_fits(glob, one.name) for glob in scope)]


def _task(given: TaskInfo) -> None:
    task_name(given.name, "task")
    for what in ("queue", "priority", "labels", "rate", "limits", "alone", "flow"):
        if (value := getattr(given, what)) is not None:
            READERS[what](value)
    for what in ("timeout", "drain"):
        received.span(getattr(given, what), what, 0, LONGEST)
    check_templates(given)


# -- users and keys --------------------------------------------------------------------------------------------------
def _user(given: Arguments, sender: Sender) -> None:
    user_name(given["name"])
    given["quotas"] = quotas(dict(given["quotas"].texts()))


def _new_key(given: Arguments, sender: Sender) -> None:
    given["new"] = check_new_key(given["new"])


def _rotated_key(given: Arguments, sender: Sender) -> None:
    check_identity(given["new_id"], given["new_hash"])
    received.span(given["overlap"], "overlap", 0, LONGEST)
    received.span(given["expires_at"], "expires_at", 0, LATEST)


CHECKS: dict[str, Callable[[Arguments, Sender], None]] = {
    "submit": _orders,
    "page": _search,
    "count": _search,
    "counted": _search,
    "facets": _search,
    "error_groups": _groups,
    "get_many": _ids,
    "glance": _ids,
    "cancel": _cancel,
    "replay": _ids,
    "hurry": _ids,
    "purge": _ids,
    "reprioritise": _reprioritise,
    "segments": _scan,
    "segment_extent": _scan,
    "unsealed": _scan,
    "put_schedule": _schedule,
    "pause_schedule": _pause_schedule,
    "remove_schedule": _remove_schedule,
    "make_fires": _fires,
    "advance": _advance,
    "set_aside_schedule": _set_aside,
    "put_calendar": _calendar,
    "close_gate": _gate,
    "set_limit": _limit,
    "remove_limit": _key,
    "pause_queue": _pause_queue,
    "resume_queue": _queue,
    "set_step": _step,
    "set_feedback": _feedback,
    "acquire_lock": _term,
    "renew_lock": _term,
    "release_lock": _holder,
    "free_lock": _lock,
    "locks": _locks,
    "make_known": _make_known,
    "put_user": _user,
    "add_key": _new_key,
    "rotate_key": _rotated_key,
}
