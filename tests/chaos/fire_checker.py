"""Holds what schedules were to do against what they did. Every fire that was due is there once, as one job that ran;
nothing else is, and nothing was made while a schedule was paused.

Where an answer of the store was still outstanding, either state may have been the true one: such instants are in
doubt, and may have fired or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.chaos import checker
from tests.chaos.checker import Finding, Span, ending, findings
from tests.chaos.evidence import Evidence
from tests.chaos.fires import PAUSE, SAVE, Deed, Fire, FireJob, Fires, Skip
from tests.chaos.rules import SECOND, Rule
from tests.checks import fires as checks
from tests.checks.breach import DOUBLE, DOUBLED, LOST, MISCOUNTED_SKIPS, MISSED, STRAY, UNPROVEN, WHILE_PAUSED
from tests.checks.orders import early, over

SKIPPED = "skipped fire"  # of a schedule whose every fire must be made, or for a reason that it has not

BAD = (MISSED, DOUBLED, STRAY, WHILE_PAUSED, SKIPPED, MISCOUNTED_SKIPS)
# Two processes look at the same clock one after the other, and a node knows the server's only so well.
BLINK = 3_000


@dataclass(frozen=True)
class Standing:
    """One way in which a schedule may have stood."""

    rule: Rule | None = None
    paused: bool = False

    def after(self, deed: Deed) -> Standing:
        if deed.verb == SAVE:
            return Standing(deed.rule, self.paused)
        return Standing(self.rule, deed.verb == PAUSE)


def standings(deeds: Sequence[Deed], instant: int) -> set[Standing]:
    """All ways in which a schedule may have stood then."""
    found = {Standing()}
    for deed in deeds:
        changed = {one.after(deed) for one in found}
        if deed.ok and instant > deed.answered + BLINK:
            found = changed
        elif instant > deed.asked - BLINK:
            found |= changed
    return found


@dataclass(frozen=True)
class Expected:
    must: set[int]  # to be made, or where pauses are allowed skipped
    may: set[int]  # these and those in doubt


def expected(deeds: Sequence[Deed]) -> Expected:
    instants = {instant for deed in deeds if deed.rule for instant in deed.rule.fires()}
    must, may = set[int](), set[int]()
    for instant in instants:
        has = [one.rule is not None and one.rule.has(instant) for one in standings(deeds, instant)]
        if any(has):
            may.add(instant)
            if all(has):
                must.add(instant)
    return Expected(must, may)


def surely_paused(deeds: Sequence[Deed], instant: int) -> bool:
    return all(one.paused for one in standings(deeds, instant))


def check(evidence: Evidence, excused: Callable[[Span, Span], bool]) -> list[Finding]:
    fires = evidence.fires
    return [
        *checker.attempts(evidence, excused),
        *_schedules(fires),
        *_jobs(fires),
        *_notes(fires),
    ]


def _schedules(fires: Fires) -> Iterator[Finding]:
    rows: dict[str, list[Fire]] = defaultdict(list)
    for row in fires.rows:
        rows[row.name].append(row)
    skips: dict[str, list[Skip]] = defaultdict(list)
    for skip in fires.skips:
        skips[skip.name].append(skip)
    for name, deeds in fires.deeds.items():
        wanted, made, runs = expected(deeds), rows.pop(name, []), skips.pop(name, [])
        sure = all(deed.sure for deed in deeds)
        yield from _made(name, deeds, wanted, made)
        yield from _skipped(name, wanted, runs, sure)
        instants, skipped = {row.fire for row in made}, [_run_of(skip) for skip in runs]
        yield from findings(0, *checks.missed(name, wanted.must, instants, skipped, all_made=sure))
        yield from findings(0, *checks.both(name, wanted.must, instants, skipped))
    for name in {*rows, *skips}:
        yield Finding(STRAY, 0, f"{name}: there is no such schedule, and it has fires or skips")


def _made(name: str, deeds: Sequence[Deed], wanted: Expected, rows: Sequence[Fire]) -> Iterator[Finding]:
    once = checks.Made()
    for row in rows:
        named = row.fire in wanted.may and row.kind == "rule"
        paused = surely_paused(deeds, row.at) or surely_paused(deeds, row.fire)
        yield from findings(0, once.make(name, row.fire), *checks.fired(name, row.fire, row.at, named, paused))


def _run_of(skip: Skip) -> checks.Skipped:
    return checks.Skipped(skip.first, skip.last, skip.count)


def _skipped(name: str, wanted: Expected, runs: Sequence[Skip], sure: bool) -> Iterator[Finding]:
    for skip in runs:
        if sure or skip.reason != "paused":
            yield Finding(SKIPPED, 0, f"{name}: {skip.count} from {skip.first} on: {skip.reason}")
        yield from findings(0, checks.counted(name, _run_of(skip), wanted.must, wanted.may))


def _jobs(fires: Fires) -> Iterator[Finding]:
    """One job per fire, under the id that its row has; it has run, and not too soon."""
    of_fire: dict[tuple[str, int], list[FireJob]] = defaultdict(list)
    for job in fires.jobs:
        of_fire[job.name, job.fire].append(job)
    wanted = {(row.name, row.fire): row.job for row in fires.rows}
    for (name, fire), job_id in wanted.items():
        found = of_fire.get((name, fire), [])
        if not found:
            yield Finding(LOST, 0, f"{name} at {fire}: its job {job_id} is not there")
        if len(found) > 1:
            yield Finding(DOUBLED, 0, f"{name} at {fire}: jobs {', '.join(one.job for one in found)}")
    for (name, fire), found in of_fire.items():
        for one in found:
            if wanted.get((name, fire)) != one.job:
                yield Finding(STRAY, 0, f"{one.job} says it is {name} at {fire}, and no row says so")
            yield from _run(one)


def _run(job: FireJob) -> Iterator[Finding]:
    about = f"{job.job} of {job.name} at {job.fire} "
    yield from findings(0, over(job.job, job.state, job.ended), about=about)
    if job.ended and job.state != "succeeded":
        yield Finding(ending(job.crashes), 0, f"{about}{job.state} with {job.crashes} crashes")
    if job.started is not None:
        yield from findings(0, early(job.started, job.fire, unit=SECOND), about=f"{about}started ")


def _notes(fires: Fires) -> Iterator[Finding]:
    """What the jobs noted: each that has ended was there, with its own times, and again only after a loss."""
    jobs = {job.job: job for job in fires.jobs}
    noted: dict[str, set[int]] = defaultdict(set)
    for tick in fires.ticks:
        noted[tick.job].add(tick.fence)
        job = jobs.get(tick.job)
        if job is None or (job.name, job.fire) != (tick.name, tick.fire):
            yield Finding(STRAY, 0, f"{tick.job} ran as {tick.name} at {tick.fire}")
    for job in fires.jobs:
        if job.state == "succeeded" and not noted[job.job]:
            yield Finding(UNPROVEN, 0, f"{job.job} of {job.name} at {job.fire} succeeded and never ran")
        if len(noted[job.job]) > 1 + job.losses:
            yield Finding(DOUBLE, 0, f"{job.job} ran {len(noted[job.job])} times with {job.losses} losses")


def fires_due(fires: Fires) -> int:
    return sum(len(expected(deeds).must) for deeds in fires.deeds.values() if all(deed.sure for deed in deeds))
