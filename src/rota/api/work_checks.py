"""Checks of what a far-away worker sends: values that a store could not hold, or that no worker of rota would send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rota.api.tickets import OfAttempt
from rota.errors import InvalidInput, NotAllowed, TooLarge
from rota.logs.sink import LARGEST_CHUNK
from rota.model.access import Grant
from rota.model.lifecycle import STEPS, JobEvent, State
from rota.model.limits import plain_name, word
from rota.model.outcome import Settlement
from rota.model.progress import Progress
from rota.model.readers import whole
from rota.model.times import LATEST, LONGEST, MINUTE, SECOND, Duration, instant
from rota.remote.work_calls import ClaimCall, RegisterCall
from rota.store.values import CUT, Chunk, Note

WORKER = ("worker",)
MOST_SLOTS = 10_000
MOST_TASKS = 10_000
LONGEST_TOKEN = 64
LONGEST_FLOW = 1_000
LARGEST_FENCE = (1 << 53) - 1
LARGEST_CODE = (1 << 31) - 1
STREAMS = ("stdout", "stderr", "log", CUT)
SHORTEST_LEASE, LONGEST_LEASE = 5 * SECOND, 5 * MINUTE
# The events that end an attempt.
_ENDS = frozenset(event for state, event in STEPS if state is State.RUNNING) - {JobEvent.HAND_BACK, JobEvent.HOLD}


def token(given: str, what: str) -> str:
    """A random name: of an incarnation, a line or a claim."""
    if not 0 < len(given) <= LONGEST_TOKEN or not given.isascii() or not given.isalnum():
        raise InvalidInput(what, given, f"letters and digits, at most {LONGEST_TOKEN}")
    return given


def registration(grant: Grant, call: RegisterCall) -> None:
    token(call.incarnation, "incarnation")
    word(call.id, "node id")
    if call.roles != WORKER:
        raise InvalidInput("roles", list(call.roles), "worker: a node that joins through a server has no other role")
    if not call.queues:
        raise InvalidInput("queues", call.queues, "at least one queue")
    slots(grant, call.queues, "queues", least=1)
    plain_name(call.version, "version")
    whole(call.lease, "lease", SHORTEST_LEASE, LONGEST_LEASE)
    whole(len(call.tasks), "number of tasks", 0, MOST_TASKS)
    whole(len(call.replaces), "number of replaced incarnations", 0, 10)
    for task in call.tasks:
        plain_name(task.name, "task")


def claim(grant: Grant, call: ClaimCall) -> None:
    token(call.claim, "claim")
    slots(grant, call.wants, "wants")
    slots(grant, call.start, "start")


def slots(grant: Grant, queues: Mapping[str, int], what: str, least: int = 0) -> None:
    for queue, count in queues.items():
        word(queue, "queue")
        whole(count, f"{what} of queue {queue}", least, MOST_SLOTS)
        if not grant.serves(queue):
            served = ", ".join(grant.queues)
            raise NotAllowed(grant.user, f"work on queue {queue!r} with key {grant.key}: it is for {served}")


def charges(grant: Grant, used: Sequence[tuple[str, str, Duration]]) -> None:
    whole(len(used), "number of flows", 0, MOST_SLOTS)
    for queue, flow, span in used:
        slots(grant, {queue: 0}, "used")
        whole(len(flow), "length of flow", 1, LONGEST_FLOW)
        whole(span, "slot-time", 0, LONGEST)


def attempt(given: OfAttempt) -> None:
    if not 0 < len(given.job_id) <= LONGEST_TOKEN:
        raise InvalidInput("job", given.job_id, "the id of a job")
    whole(given.fence, "fence", 0, LARGEST_FENCE)


def settlement(given: Settlement, max_result: int) -> None:
    attempt(given)
    if given.event not in _ENDS:
        raise InvalidInput("event", given.event.value, f"one of {', '.join(sorted(_ENDS))}")
    whole(given.delay, "delay", 0, LONGEST)
    for name in ("failures", "interruptions", "crashes"):
        whole(getattr(given, name), name, 0, 1)
    if given.exit_code is not None:
        whole(given.exit_code, "exit code", -LARGEST_CODE, LARGEST_CODE)
    if given.usage is not None:
        whole(given.usage.wall_time, "wall", 0, LONGEST)
        whole(given.usage.cpu_time, "cpu", 0, LONGEST)
        whole(given.usage.memory, "memory", 0, LARGEST_FENCE)
    if given.result is not None and given.result != "null":
        _json(given.result, "result", max_result)


def chunk(given: Chunk) -> None:
    attempt(given)
    whole(given.number, "number", 0, LARGEST_FENCE)
    whole(given.written_at, "written_at", 0, LATEST)
    if given.since is not None:
        whole(given.since, "since", 0, given.number)
    if given.stream not in STREAMS:
        raise InvalidInput("stream", given.stream, f"one of {', '.join(STREAMS)}")
    if len(given.body) > LARGEST_CHUNK:
        raise TooLarge("chunk", len(given.body), LARGEST_CHUNK)


def note(given: Note, largest: int) -> None:
    attempt(given)
    whole(given.number, "number", 0, LARGEST_FENCE)
    if given.progress is not None:
        Progress.told(given.progress.fraction, given.progress.text, instant(given.progress.at, "at"))
    if given.state is not None:
        _json(given.state, "state", largest)


def as_many(tickets: Sequence[str], items: Sequence[object]) -> None:
    if len(tickets) != len(items):
        raise InvalidInput("tickets", f"{len(tickets)} of them", f"one for each of the {len(items)} attempts")


def _json(text: str, what: str, largest: int) -> None:
    body = text.encode("utf-8", "surrogatepass")
    if len(body) > largest:
        raise TooLarge(what, len(body), largest)
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InvalidInput(what, f"a text of {len(body)} bytes", "JSON in UTF-8") from None
