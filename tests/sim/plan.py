"""What a seed stands for: the size of the cluster, its settings, the load and the faults. All drawn from the seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from rota.config import NO_SPOOL, Settings
from rota.model.times import SECOND
from tests.sim.hot_ways import HONEST, WAYS

# The queue of what schedules make.
CRON = "cron"


@dataclass(frozen=True)
class Plan:
    seed: int
    nodes: int
    fragile: int  # so many of them suffer faults; the others are there to take over
    named: bool  # nodes have ids of their own, and come back under them
    visits: int  # how often the customer comes to order, cancel, replay
    length: float  # seconds of faults; then all heals
    fault_every: float  # seconds between two faults, on average
    error_rate: float  # of store calls: half of them fail before, half after they were applied
    slow_rate: float  # of store calls that take long
    deaf_rate: float  # of wake-ups that get lost
    whole_rate: float  # of pauses that hit the whole machine, keeper included
    rude_rate: float  # of jobs that don't stop when they are told to
    lease: int
    grace: int
    kill_grace: int
    prefetch: int
    slots: int
    server: bool  # PostgreSQL, played; else an SQLite file
    hang_rate: float  # of calls to a server: half of them never arrive, half are never answered, without a word
    schedules: int  # names under which schedules come and go
    decrees: int  # how often someone comes with workflows, keys and gates
    piece: int  # so many edges, waiters and gated jobs one write looks after; the rest is for the services
    pool: bool  # functions run in processes of their own, or in one that they share; else in the node's
    crash_rate: (
        float  # of jobs that always crash what they run in, if that is not the node; half as many do now and then
    )
    refuse_rate: float  # of writes of attempts: refused by a server in trouble, with whatever it says then
    behind: bool = False  # the first node runs an older release, which lacks one of the tasks
    stuck: bool = False  # services hang for ever, now and then
    hot: int = 0  # servers of the hot tier
    lying: str = HONEST  # how it goes wrong

    def settings(self, name: str) -> Settings:
        return Settings(
            node=name if self.named else "",
            queues={"default": self.slots, "mail": 1, **({CRON: self.slots + 2} if self.schedules else {})},
            grace=self.grace * SECOND,
            kill_grace=self.kill_grace * SECOND,
            lease=self.lease * SECOND,
            prefetch=self.prefetch,
            spool=NO_SPOOL,  # a run reads no files: another one may have left some
        )


def make(seed: int, nodes: int = 2, hot: int | None = None) -> Plan:
    """`hot`: so many servers of a hot tier, whatever the seed says."""
    rng = Random(f"{seed}/plan")
    return Plan(
        seed=seed,
        nodes=nodes,
        fragile=rng.randint(1, nodes),
        named=rng.random() < 0.5,
        visits=rng.randint(10, 40),
        length=rng.uniform(20, 60),
        fault_every=rng.choice([1, 2, 4]),
        error_rate=rng.choice([0, 0.005, 0.03]),
        slow_rate=rng.choice([0, 0.01]),
        deaf_rate=rng.choice([0, 0.1, 1]),
        whole_rate=rng.choice([0, 0.5, 0.9]),
        rude_rate=rng.choice([0, 0.1]),
        lease=rng.choice([5, 6, 10]),
        grace=rng.choice([0, 2, 6]),
        kill_grace=rng.choice([1, 3]),
        prefetch=rng.choice([0, 1, 3]),
        slots=rng.randint(1, 3),
        server=rng.random() < 0.5,
        hang_rate=rng.choice([0, 0.002, 0.01]),
        schedules=rng.choice([0, 0, 2, 4]),
        decrees=rng.choice([0, 0, 20, 40]),
        piece=rng.choice([1, 2, 500]),
        pool=rng.random() < 0.5,
        crash_rate=rng.choice([0, 0.04, 0.12]),
        refuse_rate=rng.choice([0, 0, 0.02, 0.1]),
        behind=rng.random() < 0.3 and nodes > 1,
        hot=rng.choice([0, 0, 1, 3]) if hot is None else hot,
        lying=rng.choice(WAYS),
    )
