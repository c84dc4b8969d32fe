"""`rota dead ...`: look at what failed for good, run it again, delete it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.app_core import AppCore
from rota.clients.job_queries import pages
from rota.clients.jobs import PAGE, JobsClient
from rota.clock import Chance, ManualClock
from rota.model.job import Kind, NewJob, Spec, Verdict
from rota.model.lifecycle import JobEvent
from rota.model.node import NewNode
from rota.model.outcome import Ending, Problem, Settlement
from rota.model.principal import LOCAL, SYSTEM
from rota.store.base import Store
from rota.store.values import JobFilter
from tests.cli.program import Rota, on_terminal


@pytest.fixture
def letters(served: Rota) -> Iterator[list[str]]:
    """Three dead letters, and no others."""
    ids = [
        served.here("submit", "--retries", "0", "--wait", "--name", name, "--", "sh", "-c", f"exit {code}")[1]
        for name, code in (("alpha", 1), ("alpha", 2), ("beta", 3))
    ]
    yield ids
    served.ok("dead", "purge", "--all", "--yes")


def listed(served: Rota, *words: str) -> list[str]:
    return [job["id"] for job in served.json("dead", "list", *words)]


def test_look(served: Rota, letters: list[str]) -> None:
    first, second, third = letters
    assert listed(served) == [third, second, first]
    assert listed(served, "--task", "alpha") == [second, first]
    assert listed(served, "--error", "code 2") == [second]
    assert listed(served, "--queue", "other") == []
    assert "exit code 3" in served.ok("dead", "list")
    assert served.json("dead", "show", first)["id"] == first
    good = served.ok("submit", "--wait", "--", "true")
    done = served("dead", "show", good)
    assert done.returncode == 2
    assert "a job that failed; this one is succeeded" in done.stderr


@pytest.mark.slow
def test_groups(served: Rota, letters: list[str]) -> None:
    first, _, third = letters
    groups = served.json("dead", "list", "--groups")
    assert [(one["task"], one["title"], one["count"]) for one in groups] == [
        ("beta", "rota.ExitCode: exit code 3", 1),
        ("alpha", "rota.ExitCode: exit code 2", 1),
        ("alpha", "rota.ExitCode: exit code 1", 1),
    ]
    beta, _, alpha = (one["id"] for one in groups)
    shown = served.ok("dead", "list", "--groups", "--task", "alpha", "--limit", "1").splitlines()
    assert shown[0].split() == ["GROUP", "TASK", "COUNT", "FIRST", "LAST", "ERROR"]
    assert len(shown) == 2
    assert "exit code 2" in shown[1]
    assert listed(served, "--group", beta) == [third]
    assert served.json("dead", "show", third)["error_group"] == beta
    assert served.ok("dead", "replay", "--group", beta, "--dry-run") == f"{third} beta\n1 dead letter would be replayed"
    assert served.ok("dead", "replay", "--group", beta, "--yes") == "1 dead letter replayed"
    served.here("job", "wait", third)
    assert served.json("dead", "list", "--groups", "--task", "beta")[0]["id"] == beta
    assert served.ok("dead", "purge", "--group", alpha, "-y") == "1 dead letter purged"
    assert listed(served, "--group", alpha) == []
    wrong = served("dead", "replay", "--group", "zz")
    assert (wrong.returncode, "12 hexadecimal digits" in wrong.stderr) == (2, True)
    wrong = served("dead", "replay", first, "--group", beta)
    assert (wrong.returncode, "filters go with --all" in wrong.stderr) == (2, True)


@pytest.mark.slow
def test_by_id(served: Rota, letters: list[str]) -> None:
    first, second, third = letters
    good = served.ok("submit", "--wait", "--", "true")
    assert served.ok("dead", "replay", "--dry-run", first) == f"{first} would be replayed"
    assert served.ok("dead", "purge", first) == f"{first} purged"
    done = served("dead", "purge", second, good)
    assert (done.returncode, done.stdout) == (1, f"{second} purged\n")
    assert done.stderr == f"rota: job {good} is not dead: it is succeeded\n"
    assert served.job(good)["state"] == "succeeded"
    assert served.ok("dead", "replay", third) == f"{third} replayed"
    served.here("job", "wait", third)
    assert served.job(third)["replays"] == 1


def test_all_of_them(served: Rota, letters: list[str]) -> None:
    first, second, third = letters
    dry = served.ok("dead", "purge", "--all", "--task", "alpha", "--dry-run")
    assert dry == f"{second} alpha\n{first} alpha\n2 dead letters would be purged"
    assert served.json("dead", "purge", "--all", "--older-than", "1h", "--yes") == {
        "purged": 0, "matched": 0, "dry_run": False,
    }  # fmt: skip
    assert listed(served) == [third, second, first]
    assert served.ok("dead", "replay", "--all", "--error", "code 3", "--yes") == "1 dead letter replayed"
    served.here("job", "wait", third)
    assert served.ok("dead", "purge", "--all", "--task", "al*", "-y") == "2 dead letters purged"
    assert listed(served) == [third]


@pytest.mark.slow
def test_all_asks_first(served: Rota, letters: list[str]) -> None:
    done = served("dead", "purge", "--all")
    assert done.returncode == 2
    assert "purge --all: 'no terminal to ask on' is not valid; expected --yes" in done.stderr
    code, shown = on_terminal(served.folder, "dead", "purge", "--all", answer="n\n")
    assert (code, "purge 3 dead letters? [y/N]" in shown, "nothing was changed" in shown) == (1, True, True)
    assert len(listed(served)) == 3
    code, shown = on_terminal(served.folder, "dead", "purge", "--all", answer="y\n")
    assert code == 0
    assert "3 dead letters purged" in shown
    assert listed(served) == []


async def bury(store: Store, clock: ManualClock, count: int) -> None:
    """So many jobs fail in one commit, so at one instant."""
    chance = Chance(count)
    jobs = [NewJob(chance.job_id(clock.now()), "t", Spec.command(["false"])) for _ in range(count)]
    await store.submit(LOCAL, [jobs])
    claimed = await store.claim(SYSTEM, "i", {"default": count}, [Kind.COMMAND], {"default": count})
    problem = Problem("x", "y")
    ends = [
        Settlement(c.job_id, c.fence, JobEvent.FAIL, Ending.FAILED, failures=1, error=problem, reason="y")
        for c in claimed
    ]
    assert set(await store.finish(SYSTEM, ends)) == {Verdict.APPLIED}
    clock.advance(1)


@pytest.mark.slow
async def test_pages_find_each_letter_once_though_many_died_at_one_instant(tmp_path: Path, clock: ManualClock) -> None:
    app = AppCore(f"sqlite:///{tmp_path}/rota.db", clock=clock, inline=True)
    store: Store = (await app.client()).store
    await store.register(SYSTEM, NewNode("n", "i", ("worker",), {"default": 1}, "0", 10_000_000), [])
    counts = [3, PAGE * 5 // 2, PAGE - 1, PAGE, 1, PAGE + 1]
    for count in counts:
        await bury(store, clock, count)
    client = JobsClient(store, LOCAL, app.chance)
    query = JobFilter(states=("failed",), ended_before=clock.now() + 1, limit=PAGE)  # type: ignore[arg-type]
    found = [job.id async for page in pages(client, query) for job in page]
    assert len(found) == len(set(found)) == sum(counts)
    purged = [ok async for page in pages(client, query) for ok in await client.purge([job.id for job in page])]
    assert purged == [True] * sum(counts)
    assert await client.find(query) == []
    await app.close()
