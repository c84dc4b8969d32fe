"""The look at ready jobs that a claim takes: which may run, and what becomes of the others.

Those that a closed gate fits, or that need a key which is full, are moved aside, and the claim looks again at what
stands behind them, further each time: a hundred thousand gated jobs at the head are passed in a few claims. Those that
need keys are taken on the spot, with all their keys; they are never claimed ahead, for they would hold the keys idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from rota.model.job import Kind
from rota.model.lifecycle import State
from rota.model.limits import Key, Policy, Rate, effective, slack
from rota.model.rank import LEAST_URGENT
from rota.model.requirements import read_requirements
from rota.model.times import Duration, Instant
from rota.store.base import Topic
from rota.store.sqlite import alone as lone
from rota.store.sqlite import gates
from rota.store.sqlite.database import Database, encode
from rota.store.sqlite.limits import KeyState, asked, line, look_back, standings, waits_for

# How far the looks of one claim reach, at least. The last is as long as a write may take.
LOOKS = (0, 200, 1_000, 4_000)
LARGEST = (1 << 63) - 1
# So many functions more than it wants a claim looks at in the order of rank, whoever offers them.
REACH = 20

Head = tuple[int, int, int]  # rank, seq, does it need keys
_heads = msgspec.json.Decoder(list[Head])
_firsts = msgspec.json.Decoder(list[tuple[str, int, int, int]])
_near = msgspec.json.Decoder(list[tuple[int, int, int, bool]], strict=False)


class Candidate(NamedTuple):
    seq: int
    id: str
    owner: str
    task: str
    queue: str
    requirements: str | None
    special: int
    fence: int
    rank: int
    own_step: Duration | None
    interruptions: int


class ClaimAdmission:
    """One claim. `started` and `ahead` are still to be taken, `keyed` have been; `slacks`: how late some may start."""

    def __init__(self, db: Database, incarnation: str, closed: Sequence[gates.Closed], now: Instant) -> None:
        self._db, self._incarnation, self._closed, self._now = db, incarnation, list(closed), now
        self.started: list[int] = []
        self.ahead: list[int] = []
        self.keyed: list[int] = []
        self.slacks: dict[str, Duration] = {}

    def pick(self, queue: str, kinds: Sequence[Kind], limit: int, at_once: int) -> None:
        """Chooses up to `limit` jobs of a queue, the first `at_once` of them to be started."""
        wanted, chosen = limit, 0
        for look in LOOKS:
            if wanted <= 0:
                return
            most = max(wanted, look) + chosen
            found = self._lane(queue, kinds, most)
            heads = self._unchosen(found) if chosen else found
            began, ahead, aside, passed = self._choose(heads, wanted, at_once)
            wanted, at_once = wanted - began - ahead, at_once - began
            chosen += began + ahead
            if not aside + passed or len(found) < most:
                return
        if wanted > 0 and aside:
            self._db.topics.add(Topic.READY)  # there may be more behind; look again soon

    def front(self, queue: str, kinds: Sequence[Kind], limit: int) -> list[int]:
        """The first jobs of a queue that the node may run."""
        return [seq for _, seq, _ in self._lane(queue, kinds, limit)]

    def _lane(self, queue: str, kinds: Sequence[Kind], limit: int) -> list[Head]:
        heads: list[Head] = []
        for kind in kinds:
            heads += self._functions(queue, limit) if kind is Kind.FUNCTION else self._others(queue, kind, limit)
        if len(kinds) > 1:
            heads.sort()
        return heads[:limit]

    def _others(self, queue: str, kind: Kind, limit: int) -> list[Head]:
        return _heads.decode(self._db.value("lane", queue=queue, kind=kind.value, now=self._now, limit=limit))

    def _functions(self, queue: str, limit: int) -> list[Head]:
        """Those that the node offers. Mostly the first ones are all its own; where they are not, it goes on task by
        task, and what other apps have waiting is not looked at, however much it is."""
        most = limit + REACH
        text = self._db.value("near_functions", queue=queue, now=self._now, limit=most, incarnation=self._incarnation)
        near = _near.decode(text)
        heads = [(rank, seq, special) for rank, seq, special, own in near if own]
        if len(heads) >= limit or len(near) < most:
            return heads[:limit]
        return heads + self._behind(queue, near[-1][0], near[-1][1], limit - len(heads))

    def _behind(self, queue: str, rank: int, seq: int, limit: int) -> list[Head]:
        """The best functions of the node's tasks that stand behind this place."""
        place = {"queue": queue, "rank": rank, "seq": seq, "now": self._now, "limit": limit}
        firsts = _firsts.decode(self._db.value("first_functions", incarnation=self._incarnation, **place))
        if limit == 1:
            return [(rank, seq, special) for _, rank, seq, special in firsts]
        heads: list[Head] = []
        for task, rank, seq, _ in firsts:
            if len(heads) == limit and (rank, seq) > heads[-1][:2]:
                break
            heads = sorted(heads + _heads.decode(self._db.value("functions_of", task=task, **place)))[:limit]
        return heads

    def _unchosen(self, heads: Sequence[Head]) -> list[Head]:
        chosen = {*self.started, *self.ahead}
        return [head for head in heads if head[1] not in chosen]

    def _choose(self, heads: Sequence[Head], wanted: int, at_once: int) -> tuple[int, int, int, int]:
        """How many of them will start, are claimed ahead, were moved aside, and stay as they are."""
        if not self._closed and not any(special for _, _, special in heads):
            seqs = [seq for _, seq, _ in heads[:wanted]]
            self.started += seqs[:at_once]
            self.ahead += seqs[at_once:]
            return len(seqs[:at_once]), len(seqs[at_once:]), 0, 0
        return self._with_care(heads, wanted, at_once)

    def _with_care(self, heads: Sequence[Head], wanted: int, at_once: int) -> tuple[int, int, int, int]:
        look = _Look(self._db, self._incarnation, self._now, self._examined(heads))
        began = ahead = aside = passed = 0
        for _, seq, special in heads:
            if began + ahead == wanted:
                break
            one = look.candidates.get(seq)
            gate = (
                gates.fitting(self._closed, one.owner, one.task, one.queue, one.requirements, one.id) if one else None
            )
            if seq in look.gone:
                aside += 1
            elif gate is not None:
                look.barred.append((seq, gate))
                aside += 1
            elif special and began >= at_once:
                passed += 1
            elif (special and one and not self._alone(one, look)) or (special and one and not look.take(one)):
                aside += 1
            elif special or began < at_once:
                self.started += [] if special else [seq]
                began += 1
            else:
                self.ahead.append(seq)
                ahead += 1
        look.write()
        self.keyed += look.taken
        self.slacks |= look.slacks
        return began, ahead, aside, passed

    def _alone(self, one: Candidate, look: _Look) -> bool:
        """Who wants to be alone closes a gate for itself and waits until the others have ended. What this very claim
        has chosen before counts as running."""
        alone = lone.wants(one.requirements)
        if alone is None:
            return True
        own = next((gate for gate in self._closed if gate.job == one.id), None)
        if own is not None and lone.is_alone(self._db, own) and not self._beside(own, look):
            return True
        if own is None and look.full(one):
            return True  # first its keys: it is put into line, and meanwhile the others may run
        if own is None:
            self._closed.append(lone.close(self._db, one.id, one.owner, alone, self._now))
        look.wait(one)
        return False

    def _beside(self, own: gates.Closed, look: _Look) -> bool:
        """Has this claim chosen any that its gate would hold?"""
        seqs = [*self.started, *self.ahead, *self.keyed, *look.chosen]
        rows = self._db.rows("candidates", seqs=encode(seqs).decode()) if seqs else []
        return any(
            own.fits(one.owner, one.task, one.queue, one.requirements) for one in (Candidate(*row) for row in rows)
        )

    def _examined(self, heads: Sequence[Head]) -> dict[int, Candidate]:
        seqs = [seq for _, seq, special in heads if special or self._closed]
        rows = self._db.rows("candidates", seqs=encode(seqs).decode())
        return {row[0]: Candidate(*row) for row in rows}


class _Look:
    """What one look decides, written in a few statements at its end; earlier only where somebody is replaced."""

    def __init__(self, db: Database, incarnation: str, now: Instant, candidates: dict[int, Candidate]) -> None:
        self._db, self._incarnation, self._now = db, incarnation, now
        self.candidates = candidates
        self.barred: list[tuple[int, gates.Closed]] = []
        self.taken: list[int] = []
        self.slacks: dict[str, Duration] = {}
        self.gone: set[int] = set()  # replaced by another
        self._taking: list[int] = []
        self._slots: list[tuple[Any, ...]] = []
        self._starts: list[tuple[Any, ...]] = []
        self._wanted: list[tuple[str, str, str, int]] = []
        self._held: list[tuple[int, str, str]] = []
        self._ended: list[tuple[int, str, str]] = []
        self._keys = {one.seq: read_requirements(one.requirements).keys for one in candidates.values() if one.special}
        wanted = {asked(candidates[seq].owner, key) for seq, keys in self._keys.items() for key in keys}
        self._standings = standings(db, wanted, now) if wanted else {}

    def _standing(self, one: Candidate, key: Key) -> KeyState:
        return self._standings[one.owner, key.name]

    @property
    def chosen(self) -> list[int]:
        return [*self._taking, *self.taken]

    def full(self, one: Candidate) -> bool:
        return self._full(one) is not None

    def _full(self, one: Candidate) -> Key | None:
        for key in self._keys[one.seq]:
            room = self._standing(one, key).room(key, one.rank)
            if room is not None and room <= 0:
                return key
        return None

    def wait(self, one: Candidate) -> None:
        self._held.append((one.seq, f"a:{one.id}", "waits until it is alone"))

    def take(self, one: Candidate) -> bool:
        """Takes all its keys together, or moves it aside."""
        if (key := self._full(one)) is not None:
            self._give_way(one, key)
            return False
        self._taking.append(one.seq)
        for key in self._keys[one.seq]:
            self._reserve(one, key, self._standing(one, key))
        return True

    def _reserve(self, one: Candidate, key: Key, standing: KeyState) -> None:
        counts = effective(key, standing.limit)
        # One without a bound is held too: a person may set one, or take a rate away that stood in its place, meanwhile.
        self._slots.append((one.owner, key.name, standing.take(), one.id, one.fence + 1, self._now))
        if counts.rate is not None:
            self._use_token(one, counts.rate, standing, key.name)

    def _use_token(self, one: Candidate, rate: Rate, standing: KeyState, name: str) -> None:
        late = slack(rate.window, one.interruptions)
        look_back(self._db, one.owner, name, standing, rate.window)
        until = self._now + late + standing.kept
        self._starts.append((one.owner, name, one.id, one.fence + 1, self._now, late, until))
        self.slacks[one.id] = min(late, self.slacks.get(one.id, late))
        if standing.start(rate):
            self._db.topics.add(Topic.GATE)  # whoever waits has a time to wait for now

    def _give_way(self, one: Candidate, key: Key) -> None:
        if key.policy is Policy.SKIP:
            self._ended.append((one.seq, State.SKIPPED, f"key {key.name} was taken"))
            return
        if key.policy is Policy.REPLACE:
            self._replace(one, key)
        self._held.append((one.seq, line(one.owner, key.name), waits_for(key.name)))
        self._remember(one)
        standing = self._standing(one, key)
        if (rate := effective(key, standing.limit).rate) is not None:
            look_back(self._db, one.owner, key.name, standing, rate.window)
            self._db.topics.add(Topic.GATE)  # it has a time to wait for

    def _remember(self, one: Candidate) -> None:
        """Of one that waits for several keys: from which rank on others must leave it room."""
        if len(self._keys[one.seq]) > 1:
            step = self._db.ageing_step if one.own_step is None else one.own_step
            latest = min(one.rank + LEAST_URGENT * step, LARGEST)
            self._wanted += [(one.owner, key.name, one.id, latest) for key in self._keys[one.seq]]
            for key in self._keys[one.seq]:
                self._standing(one, key).leave_room(latest)

    def _replace(self, one: Candidate, key: Key) -> None:
        self.write()
        why = f"replaced by job {one.id}"
        ended = self._db.rows("replace_waiting", line=line(one.owner, key.name), newer=one.seq, now=self._now, why=why)
        self.gone |= {seq for (seq,) in ended}
        if self._db.run("replace_running", owner=one.owner, key=key.name, newer=one.seq, why=why):
            self._db.topics.add(Topic.CANCEL)
        if ended:
            self._db.topics.add(Topic.NEWS)

    def write(self) -> None:
        if self._taking:
            text = encode(self._taking).decode()
            self._db.run("take", seqs=text, incarnation=self._incarnation, started_at=self._now)
            self.taken += self._taking
        self._db.many("insert_slot", self._slots)
        self._db.many("insert_start", self._starts)
        self._db.many("insert_wanted", self._wanted)
        if self._held:
            self._db.run("hold_jobs", rows=encode(self._held).decode())
        if self._ended:
            self._db.run("put_away", rows=encode(self._ended).decode(), now=self._now)
            self._db.topics.add(Topic.NEWS)
        gates.bar(self._db, self.barred)
        for done in (self._taking, self._slots, self._starts, self._wanted, self._held, self._ended, self.barred):
            done.clear()
