"""The scan of ready jobs by a claim, in the order of rank. `model.admission` decides which of them may run.

Jobs that a closed gate fits, or that need a key which is full, are moved aside, and the claim looks again at the jobs
behind them, further each time: a hundred thousand gated jobs at the head are passed in a few claims. Jobs that need
keys are taken on the spot, with all their keys; they are never claimed ahead, for they would hold the keys idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rota.model.admission import Candidate, ClaimAdmission, Replacing
from rota.model.gates import ClosedGate
from rota.model.job import Kind
from rota.model.keys import line
from rota.model.requirements import read_requirements, subject
from rota.model.times import Duration, Instant
from rota.store.sqlite import alone, gates
from rota.store.sqlite.database import Database, encode
from rota.store.sqlite.limits import asked, key_states
from rota.store.values import Topic

# The least number of jobs that each look of one claim reads. The last takes as long as a write may take.
LOOKS = (0, 200, 1_000, 4_000)
# Extra functions that a claim reads in the order of rank, offered by its node or not.
REACH = 20

Head = tuple[int, int, int]  # rank, seq, does it need keys
_heads = msgspec.json.Decoder(list[Head])
_firsts = msgspec.json.Decoder(list[tuple[str, int, int, int]])
_near = msgspec.json.Decoder(list[tuple[int, int, int, bool]], strict=False)


class ClaimScan:
    """One claim. Jobs of `started` and `ahead` are yet to be taken, jobs of `keyed` were taken; `slacks`: how late
    after the claim jobs may start. `bounded`: some user has a quota for running jobs."""

    def __init__(
        self, db: Database, incarnation: str, closed: Sequence[ClosedGate], now: Instant, bounded: bool
    ) -> None:
        self._db, self._incarnation, self._closed, self._now = db, incarnation, list(closed), now
        self._bounded = bounded
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
        place = {"queue": queue, "kind": kind.value, "now": self._now, "limit": limit}
        return _heads.decode(self._db.value("lane", bounded=self._bounded, **place))

    def _functions(self, queue: str, limit: int) -> list[Head]:
        """Functions that the node offers. Mostly the first of the queue are all offered; otherwise the scan goes on
        task by task, and reads no functions of other apps."""
        most = limit + REACH
        place = {"queue": queue, "incarnation": self._incarnation, "now": self._now, "limit": most}
        near = _near.decode(self._db.value("near_functions", bounded=self._bounded, **place))
        heads = [(rank, seq, special) for rank, seq, special, own in near if own]
        if len(heads) >= limit or len(near) < most:
            return heads[:limit]
        return heads + self._behind(queue, near[-1][0], near[-1][1], limit - len(heads))

    def _behind(self, queue: str, rank: int, seq: int, limit: int) -> list[Head]:
        """The best functions of the node's tasks behind this rank."""
        place = {"queue": queue, "rank": rank, "seq": seq, "now": self._now, "limit": limit, "bounded": self._bounded}
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
        """The numbers of jobs that will start, are claimed ahead, were moved aside, and stay as they are."""
        if not self._closed and not any(special for _, _, special in heads):
            seqs = [seq for _, seq, _ in heads[:wanted]]
            self.started += seqs[:at_once]
            self.ahead += seqs[at_once:]
            return len(seqs[:at_once]), len(seqs[at_once:]), 0, 0
        return self._with_care(heads, wanted, at_once)

    def _with_care(self, heads: Sequence[Head], wanted: int, at_once: int) -> tuple[int, int, int, int]:
        candidates = self._candidates([seq for _, seq, special in heads if special or self._closed])
        admission = self._admission([candidates[seq] for _, seq, special in heads if special and seq in candidates])
        began = ahead = aside = passed = 0
        for _, seq, special in heads:
            if began + ahead == wanted:
                break
            one = candidates.get(seq)
            if one is not None and admission.bars(one):
                aside += 1
            elif special and began >= at_once:
                passed += 1
            elif special and one is not None and not admission.admit(one):
                aside += 1
            elif special or began < at_once:
                self.started += [] if special else [seq]
                began += 1
            else:
                self.ahead.append(seq)
                ahead += 1
        admission.finish()
        self._write(admission, {one.id: seq for seq, one in candidates.items()})
        return began, ahead, aside, passed

    def _candidates(self, seqs: Sequence[int]) -> dict[int, Candidate]:
        found: dict[int, Candidate] = {}
        for seq, job, owner, task, queue, text, *rest, bounded in self._db.rows(
            "candidates", seqs=encode(seqs).decode()
        ):
            needs = read_requirements(text)
            needs = needs.within_quota() if bounded else needs
            found[seq] = Candidate(job, subject(owner, task, queue, text), needs, *rest)
        return found

    def _admission(self, special: Sequence[Candidate]) -> ClaimAdmission:
        wanted = {asked(one.subject.owner, key) for one in special for key in one.requirements.keys}
        states = key_states(self._db, wanted, self._now) if wanted else {}
        running = alone.running(self._db) if any(one.requirements.alone for one in special) else []
        return ClaimAdmission(self._closed, states, running, self._now, self._db.ageing_step)

    def _write(self, admission: ClaimAdmission, seqs: Mapping[str, int]) -> None:
        db, now = self._db, self._now
        if self._bounded:
            keyed = [*admission.taken, *(one.job for one in admission.held)]
            db.run("make_special", seqs=encode([seqs[job] for job in keyed]).decode())
        if admission.taken:
            taken = [seqs[job] for job in admission.taken]
            db.run("take", seqs=encode(taken).decode(), incarnation=self._incarnation, started_at=now)
            self.keyed += taken
            self.slacks |= admission.slacks
        db.many("insert_slot", [(*one.key, one.number, one.job, one.fence, now) for one in admission.slots])
        tokens = [(*one.key, one.job, one.fence, now, one.late, one.until) for one in admission.tokens]
        db.many("insert_start", tokens)
        db.many("insert_wanted", [(*key, one.job, one.rank) for key, one in admission.reserving])
        for (owner, key), window in admission.looks_back.items():
            db.run("stretch_tokens", owner=owner, key=key, span=window)
        for gate in admission.closing:
            alone.close(db, gate, now)
        self._closed += admission.closing
        if admission.held:
            rows = [(seqs[one.job], one.held_by, one.reason) for one in admission.held]
            db.run("hold_jobs", rows=encode(rows).decode())
        if admission.ended:
            rows = [(seqs[one.job], one.state, one.reason) for one in admission.ended]
            db.run("put_away", rows=encode(rows).decode(), now=now)
            db.topics.add(Topic.NEWS)
        gates.bar(db, [(seqs[job], gate) for job, gate in admission.barred])
        for one in admission.replacing:
            self._replace(one, seqs[one.by])
        if admission.wakes_admission:
            db.topics.add(Topic.GATE)

    def _replace(self, one: Replacing, newer: int) -> None:
        owner, key = one.key
        waiting = {"line": line(owner, key), "newer": newer, "now": self._now, "why": one.reason}
        if self._db.run("replace_waiting", **waiting):
            self._db.topics.add(Topic.NEWS)
        if self._db.run("replace_running", owner=owner, key=key, newer=newer, why=one.reason):
            self._db.topics.add(Topic.CANCEL)
