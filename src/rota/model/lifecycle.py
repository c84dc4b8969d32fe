"""The life of a job: every state, every event, every step. This table is the only place that knows them.

Rules
- A job is in exactly one state, and one owner moves jobs out of each state (`OWNERS`).
- A step that is not in `STEPS` is illegal: `step()` raises and nothing changes.
- Terminal is final. The ways out are `replay`, `rerun` and `reopen`, which a person asks for and which are recorded.
- Jobs that can't run now (`blocked`, `scheduled`, `held`) are never in the index that claims read.

The CHECK constraints of the stores, the diagram in docs/lifecycle.md and the exhaustive tests are made from this table.
"""

from __future__ import annotations

from enum import StrEnum

from rota.errors import IllegalEvent


class State(StrEnum):
    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    HELD = "held"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    DROPPED = "dropped"


class JobEvent(StrEnum):
    RELEASE = "release"  # all parents ended as required, and its time has come
    DEFER = "defer"  # nothing else holds it, but its own time has not come
    HOLD = "hold"  # a gate matches it (perhaps closed after the claim), or a key is full
    ADMIT = "admit"  # the gate opened, or the key became free
    PROMOTE = "promote"  # its time has come
    CLAIM = "claim"  # a worker took it
    HAND_BACK = "hand_back"  # the worker gave it back before starting it
    SUCCEED = "succeed"
    RETRY = "retry"  # the attempt failed, more are allowed
    SNOOZE = "snooze"  # the task asked to come back later
    FAIL = "fail"  # the attempt failed for good
    INTERRUPT = "interrupt"  # the node stopped the attempt in order to shut down
    RECOVER = "recover"  # its node died; run it again at once
    BACK_OFF = "back_off"  # its node died, and not for the first time; run it again later
    QUARANTINE = "quarantine"  # its node died too often while it ran
    SET_ASIDE = "set_aside"  # the row can't be run at all: unknown task, broken payload
    CANCEL = "cancel"
    EXPIRE = "expire"  # it had not started by its expiry
    SKIP = "skip"  # a parent ended otherwise than required, or its key was full
    DROP = "drop"  # a gate drops it
    REPLAY = "replay"  # a person runs it again
    RERUN = "rerun"  # a person runs the whole workflow again
    REOPEN = "reopen"  # it waits again for a parent that runs again


_WAITING = (State.BLOCKED, State.SCHEDULED, State.HELD, State.READY)

_ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED, State.DROPPED)

TERMINAL = frozenset(_ENDED)
LIVE = frozenset(State) - TERMINAL
INITIAL = frozenset(_WAITING)

STEPS: dict[tuple[State, JobEvent], State] = {
    (State.BLOCKED, JobEvent.RELEASE): State.READY,
    (State.BLOCKED, JobEvent.DEFER): State.SCHEDULED,
    (State.BLOCKED, JobEvent.HOLD): State.HELD,
    (State.BLOCKED, JobEvent.SKIP): State.SKIPPED,
    (State.SCHEDULED, JobEvent.PROMOTE): State.READY,
    (State.SCHEDULED, JobEvent.HOLD): State.HELD,
    (State.HELD, JobEvent.ADMIT): State.READY,
    (State.HELD, JobEvent.DEFER): State.SCHEDULED,
    (State.READY, JobEvent.HOLD): State.HELD,
    (State.READY, JobEvent.CLAIM): State.RUNNING,
    (State.READY, JobEvent.SKIP): State.SKIPPED,
    (State.RUNNING, JobEvent.HAND_BACK): State.READY,
    (State.RUNNING, JobEvent.SUCCEED): State.SUCCEEDED,
    (State.RUNNING, JobEvent.RETRY): State.SCHEDULED,
    (State.RUNNING, JobEvent.SNOOZE): State.SCHEDULED,
    (State.RUNNING, JobEvent.FAIL): State.FAILED,
    (State.RUNNING, JobEvent.INTERRUPT): State.READY,
    (State.RUNNING, JobEvent.RECOVER): State.READY,
    (State.RUNNING, JobEvent.BACK_OFF): State.SCHEDULED,
    (State.RUNNING, JobEvent.QUARANTINE): State.FAILED,
    (State.RUNNING, JobEvent.CANCEL): State.CANCELLED,
    (State.RUNNING, JobEvent.HOLD): State.HELD,
    (State.FAILED, JobEvent.REPLAY): State.SCHEDULED,
    (State.CANCELLED, JobEvent.REPLAY): State.SCHEDULED,
    **{(state, JobEvent.RERUN): State.SCHEDULED for state in _ENDED},
    **{(state, JobEvent.REOPEN): State.BLOCKED for state in _ENDED},
    **{(state, JobEvent.CANCEL): State.CANCELLED for state in _WAITING},
    **{(state, JobEvent.EXPIRE): State.CANCELLED for state in _WAITING},
    **{(state, JobEvent.DROP): State.DROPPED for state in _WAITING},
    **{(state, JobEvent.SET_ASIDE): State.FAILED for state in (*_WAITING, State.RUNNING)},
}

OWNERS: dict[State, str] = {
    State.BLOCKED: "the store's settling, in the parent's own transaction; control/resolver settles the rest",
    State.SCHEDULED: "control/promoter",
    State.HELD: "control/admission",
    State.READY: "claim by a worker; `control/unoffered`, if no node has ever offered its task",
    State.RUNNING: "its attempt; if silent: control/reaper",
    **{state: "control/janitor" for state in State if state in TERMINAL},
}


def step(state: State, event: JobEvent) -> State:
    try:
        return STEPS[state, event]
    except KeyError:
        raise IllegalEvent(state, event) from None


def sources(event: JobEvent) -> frozenset[State]:
    """The states in which this event is legal."""
    return frozenset(state for state, known in STEPS if known is event)


def diagram() -> str:
    """The table as a Mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in State if state in INITIAL]
    lines += [f"    {source} --> {target}: {event}" for (source, event), target in STEPS.items()]
    lines += [f"    {state} --> [*]" for state in State if state in TERMINAL]
    return "\n".join(lines)
