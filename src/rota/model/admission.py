"""Admission: decides which of the jobs that a claim considers may start, and what happens to the others.

A store loads the facts (candidates in the order of rank, closed gates, keys), `ClaimAdmission` decides, and the store
writes the decision. PostgreSQL decides in the function `admit_claim`, because the lock that serialises admission would
otherwise be held for several round trips; a property test holds that function against this module.

For each candidate, in the order of rank:
- the oldest closed gate that fits it holds or drops it;
- a job that wants to be alone closes a gate for itself and waits until no job that the gate fits runs; while one of its
  keys is full it waits for the key instead, so that the others may run meanwhile;
- a job that needs keys takes all of them together, or none: its policy says whether it waits in the line of the first
  full key, is skipped, or replaces older jobs of that key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from rota.model.gates import ClosedGate, Effect, Subject, fitting
from rota.model.keys import KeyId, KeyState, Reservation, States, line, looks_back, reserved_from, waits_for
from rota.model.lifecycle import State
from rota.model.limits import RUNNING_QUOTA, Key, Policy, effective, slack
from rota.model.requirements import Alone, Requirements
from rota.model.times import Duration, Instant

WAITS_ALONE = "waits until it is alone"
YIELDED = "others were still running at its drain deadline"
# Pause between two checks whether a job is alone.
LOOK_AGAIN: Duration = 250_000


class Candidate(NamedTuple):
    """A ready job that a claim considers."""

    id: str
    subject: Subject
    requirements: Requirements
    fence: int
    rank: int
    own_step: Duration | None  # of ageing, by which it was ranked
    interruptions: int
    reserved: int | None = None  # set if it has waited for several keys: jobs that rank behind this must leave it room

    @property
    def keys(self) -> tuple[Key, ...]:
        """In the order in which they are checked: by name, the quota last. A job that replaces the holder of its key
        would otherwise wait for the quota that this holder has used up."""
        return tuple(sorted(self.requirements.keys, key=lambda key: (key.name == RUNNING_QUOTA, key.name)))

    @property
    def own_keys(self) -> tuple[Key, ...]:
        return tuple(key for key in self.keys if key.name != RUNNING_QUOTA)


class Slot(NamedTuple):
    key: KeyId
    number: int
    job: str
    fence: int


class Token(NamedTuple):
    key: KeyId
    job: str
    fence: int
    late: Duration  # how long after its claim the start may happen
    until: Instant  # how long it is kept


class Held(NamedTuple):
    job: str
    held_by: str
    reason: str


class Ended(NamedTuple):
    job: str
    state: State
    reason: str


class Replacing(NamedTuple):
    """Older jobs that wait for the key end, and jobs that hold it are asked to stop."""

    key: KeyId
    by: str

    @property
    def reason(self) -> str:
        return f"replaced by job {self.by}"


def is_alone(gate: ClosedGate, running: Iterable[tuple[str, Subject]]) -> bool:
    """Whether no running job fits the gate of the job that runs alone."""
    return not beside(gate, running)


def beside(gate: ClosedGate, running: Iterable[tuple[str, Subject]]) -> list[str]:
    return [job for job, subject in running if job != gate.job and gate.fits(subject)]


class AloneStep(StrEnum):
    """The next step of a job that waits until it is alone."""

    GO = "go"
    WAIT = "wait"
    YIELD = "yield"  # it opens its gate and tries again later
    CANCEL = "cancel"  # it has the others cancelled, and waits


def alone_step(alone: Alone | None, since: Instant | None, is_alone: bool, now: Instant) -> AloneStep:
    """`since`: when it closed its gate; None: the gate is gone, and the next claim closes another."""
    if alone is None or since is None or is_alone:
        return AloneStep.GO
    if since + alone.drain > now:
        return AloneStep.WAIT
    return AloneStep.CANCEL if alone.cancel else AloneStep.YIELD


class ClaimAdmission:
    """Decides on candidates one by one, best rank first, and collects the writes, which are complete after `finish`.
    `running` is read only if a job wants to be alone."""

    def __init__(
        self,
        gates: Sequence[ClosedGate],
        states: States,
        running: Collection[tuple[str, Subject]],
        now: Instant,
        step: Duration,
    ) -> None:
        self._gates, self._states, self._running, self._now, self._step = list(gates), states, running, now, step
        self._passed_over: list[Candidate] = []
        self.taken: list[str] = []
        self.slots: list[Slot] = []
        self.tokens: list[Token] = []
        self.slacks: dict[str, Duration] = {}  # how late after the claim jobs may start
        self.held: list[Held] = []
        self.ended: list[Ended] = []
        self.barred: list[tuple[str, ClosedGate]] = []  # jobs that a gate holds or drops
        self.closing: list[ClosedGate] = []  # gates of jobs that want to be alone
        self.replacing: list[Replacing] = []
        self.reserving: list[tuple[KeyId, Reservation]] = []
        self.looks_back: dict[KeyId, Duration] = {}  # how long to keep the tokens of these keys
        self.wakes_admission = False  # some job waits for an instant

    def bars(self, one: Candidate) -> bool:
        """Whether a gate holds or drops it."""
        gate = fitting(self._gates, one.subject, one.id)
        if gate is not None:
            self.barred.append((one.id, gate))
        return gate is not None

    def admit(self, one: Candidate) -> bool:
        """Decides on a job that no gate bars. True: it starts now, with all its keys. False: it was moved aside."""
        if one.requirements.alone is not None and not self._may_be_alone(one, one.requirements.alone):
            return False
        if self._full(one) is not None:
            self._passed_over.append(one)
            if one.reserved is not None:
                for key in one.own_keys:
                    self._state(one, key).reserve(Reservation(one.reserved, one.id))
            return False
        self._take(one)
        return True

    def finish(self) -> None:
        """Decides on the jobs that were passed over, once all starting jobs have their keys."""
        for one in self._passed_over:
            full = self._full(one)
            if full is not None:
                self._give_way(one, full)

    def _may_be_alone(self, one: Candidate, alone: Alone) -> bool:
        own = next((gate for gate in self._gates if gate.job == one.id), None)
        if own is not None and own.proved and is_alone(own, self._running):
            return True
        if self._full(one) is not None:
            return True  # it will wait for the key
        if own is None:
            reason, gate_id = f"job {one.id} is to run alone", f"alone-{one.id}-{self._now}"
            gate = ClosedGate(gate_id, one.subject.owner, alone.match, Effect.PAUSE, reason, job=one.id)
            self.closing.append(gate)
            self._gates.append(gate)
        self.held.append(Held(one.id, f"a:{one.id}", WAITS_ALONE))
        return False

    def _state(self, one: Candidate, key: Key) -> KeyState:
        return self._states[one.subject.owner, key.name]

    def _full(self, one: Candidate) -> Key | None:
        for key in one.keys:
            room = self._state(one, key).room(key, one.id, one.rank)
            if room is not None and room <= 0:
                return key
        return None

    def _take(self, one: Candidate) -> None:
        self.taken.append(one.id)
        for key in one.keys:
            name, state = (one.subject.owner, key.name), self._state(one, key)
            # A key without a bound is held too: a person may set one, or remove a rate, while it is held.
            self.slots.append(Slot(name, state.take(), one.id, one.fence + 1))
            rate = effective(key, state.limit).rate
            if rate is not None:
                self._look_back(name, key, state)
                late = slack(rate.window, one.interruptions)
                self.tokens.append(Token(name, one.id, one.fence + 1, late, self._now + late + state.kept))
                self.slacks[one.id] = min(late, self.slacks.get(one.id, late))
                self.wakes_admission |= state.start(rate)

    def _give_way(self, one: Candidate, key: Key) -> None:
        for each in one.keys:
            state = self._state(one, each)
            self._look_back((one.subject.owner, each.name), each, state)
            self.wakes_admission |= effective(each, state.limit).rate is not None
        name = (one.subject.owner, key.name)
        if key.policy is Policy.SKIP:
            self.ended.append(Ended(one.id, State.SKIPPED, f"key {key.name} was taken"))
            return
        if key.policy is Policy.REPLACE:
            self.replacing.append(Replacing(name, one.id))
        self.held.append(Held(one.id, line(*name), waits_for(key.name)))
        self._reserve(one)

    def _reserve(self, one: Candidate) -> None:
        """A reservation takes effect with the next claim. None for the quota: whoever ends and frees another key of the
        user frees a place in the quota too, and a place that is kept for a job which waits for a key lies idle."""
        if len(one.own_keys) < 2:
            return
        reservation = Reservation(reserved_from(one.rank, self._step if one.own_step is None else one.own_step), one.id)
        self.reserving += [((one.subject.owner, key.name), reservation) for key in one.own_keys]

    def _look_back(self, name: KeyId, key: Key, state: KeyState) -> None:
        window = looks_back(key, state)
        if window is not None:
            self.looks_back[name] = state.kept = window
