"""Several nodes in processes of their own: what happens when they are killed, stopped, or asked to go."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.model.lifecycle import State
from rota.model.node import NodeState
from rota.model.outcome import Ending
from tests.node.cluster import Cluster
from tests.node.running import LONG

pytestmark = pytest.mark.slow

# With each renewal a node learns whether there is work, and without one it looks for it now and then.
SLEEPY = """
from rota.work import heartbeat, worker
heartbeat.BEAT = worker.LONGEST_SLEEP = 3600.0
"""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    await cluster.close()


async def test_a_killed_nodes_job_is_taken_over_long_before_its_lease_is_over(cluster: Cluster) -> None:
    """By silence alone it would take five minutes, and nobody here waits that long."""
    cluster.settings["ROTA_LEASE"] = "5m"
    await cluster.start("anna")
    await cluster.start("bert")
    job = await cluster.work.submit(seconds=1.0)
    command = await cluster.app.submit_command(["sh", "-c", "echo $ROTA_FENCE; sleep 2"])
    holder = await cluster.holder(job)
    await cluster.holder(command)
    cluster.signal(holder, signal.SIGKILL)
    info = await job.wait(LONG)
    await command.wait(LONG)
    assert info.state is State.SUCCEEDED
    first, second = info.attempts
    assert (first.outcome, first.node) == (Ending.CRASHED, holder)
    assert (second.outcome, second.node) == (Ending.SUCCEEDED, {"anna": "bert", "bert": "anna"}[holder])
    assert (info.crashes, info.failures, info.result) == (1, 0, 2)
    ends = [words for words in cluster.witness() if words[1] == job.id and words[4] == "end"]
    assert [words[2] for words in ends] == ["2"]


async def test_a_command_of_a_killed_node_is_gone_before_it_starts_elsewhere(cluster: Cluster) -> None:
    """The command holds a lock file while it lives; a second one beside it would say so."""
    await cluster.start("anna")
    await cluster.start("bert")
    script = """
import fcntl, os, time
lock = open("lock", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("beside the other", flush=True)
print("alone", os.getpid(), flush=True)
time.sleep(1000 if os.environ["ROTA_ATTEMPT"] == "1" else 0)
"""
    job = await cluster.app.submit_command(["python3", "-c", script], cwd=str(cluster.folder))

    async def said() -> bool:
        return "alone" in await job.logs()

    await cluster.until(said, "the command to speak")
    cluster.signal(await cluster.holder(job), signal.SIGKILL)
    info = await job.wait(LONG)
    assert info.state is State.SUCCEEDED
    assert len(info.attempts) == 2
    logs = await job.logs()
    assert logs.count("alone") == 2
    assert "beside" not in logs


async def test_nothing_of_a_killed_node_survives(cluster: Cluster) -> None:
    """Not its keeper, not the process that functions are forked from, and not one of these."""
    await cluster.start("anna")
    job = await cluster.block.submit(seconds=3600)
    await cluster.witnessed(job, "start")
    cluster.signal("anna", signal.SIGKILL)

    async def clear() -> bool:
        return cluster.leftovers() == []

    await cluster.until(clear, "everything to be gone")
    await cluster.start("bert")
    info = await job.wait(LONG)
    assert (info.state, info.crashes) == (State.SUCCEEDED, 1)
    assert [words[2:5:2] for words in cluster.witness()] == [["1", "start"], ["2", "start"], ["2", "end"]]


async def test_a_stopped_node_is_fenced_and_its_work_done_elsewhere(cluster: Cluster) -> None:
    """SIGSTOP past the lease. The keeper ends the stopped node, and the function that runs on in a process of its own,
    before anyone else may take its work."""
    cluster.settings["ROTA_LEASE"] = "5s"
    await cluster.start("anna")
    job = await cluster.block.submit(seconds=3600)
    await cluster.witnessed(job, "start")
    await cluster.start("bert")
    cluster.signal("anna", signal.SIGSTOP)
    info = await job.wait(LONG + 10)
    assert info.state is State.SUCCEEDED
    assert [a.node for a in info.attempts] == ["anna", "bert"]
    assert info.attempts[0].outcome is Ending.CRASHED
    assert await cluster.ended("anna") == -signal.SIGKILL
    assert [words[2:5:2] for words in cluster.witness()] == [["1", "start"], ["2", "start"], ["2", "end"]]


async def test_a_submit_from_another_process_wakes_a_sleeping_node(cluster: Cluster) -> None:
    """One that looks by itself only once in an hour."""
    cluster.settings["ROTA_LEASE"] = "5m"
    with (cluster.folder / "chaos_app.py").open("a") as file:
        file.write(SLEEPY)
    await cluster.start("anna")
    for _ in range(20):
        await (await cluster.work.submit(seconds=0.0)).wait(LONG)


async def test_a_job_that_kills_its_node_goes_to_the_dead_letters(cluster: Cluster) -> None:
    job = await cluster.poison.submit()
    for name in ("anna", "bert", "carl"):
        await cluster.launch(name, "--quiet")
        assert await cluster.ended(name) == -signal.SIGKILL
    await cluster.start("dora")
    info = await job.wait(LONG)
    assert info.state is State.FAILED
    assert (info.crashes, len(info.attempts)) == (3, 3)
    assert "3 nodes have died" in (info.reason or "")


class TestGracefulStop:
    async def test_running_work_is_finished(self, cluster: Cluster) -> None:
        await cluster.start("anna")
        job = await cluster.work.submit(seconds=0.5)
        await cluster.witnessed(job, "start")
        cluster.signal("anna", signal.SIGTERM)
        assert await cluster.ended("anna") == 0
        info = await job.info()
        assert (info.state, len(info.attempts)) == (State.SUCCEEDED, 1)
        assert cluster.leftovers() == []

    async def test_what_does_not_finish_in_time_is_interrupted_and_put_back(self, cluster: Cluster) -> None:
        cluster.settings["ROTA_KILL_GRACE"] = "500ms"
        await cluster.start("anna", "--grace", "200ms", "--queues", "default:3")
        job = await cluster.work.submit(seconds=LONG)
        command = await cluster.app.submit_command(["sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000"])
        threaded = await cluster.block.submit(seconds=LONG)
        waiting = await cluster.work.submit(seconds=0.0)
        for one in (job, command, threaded):
            await cluster.holder(one)
        cluster.signal("anna", signal.SIGTERM)
        assert await cluster.ended("anna") == 0
        assert cluster.leftovers() == []
        for one in (job, command, threaded):
            info = await one.info()
            assert info.state is State.READY
            assert [a.outcome for a in info.attempts] == [Ending.INTERRUPTED]
            assert (info.interruptions, info.failures, info.crashes) == (1, 0, 0)
        assert (await waiting.info()).attempts == []
        assert await cluster.nodes() == []
        nodes = await (await cluster.app._core.client()).store.nodes(cluster.app._core.who, past=True)
        assert [(node.id, node.state) for node in nodes] == [("anna", NodeState.LEFT)]

    async def test_a_second_signal_shortens_the_grace(self, cluster: Cluster) -> None:
        await cluster.start("anna", "--grace", "1h")
        job = await cluster.work.submit(seconds=3600)
        await cluster.witnessed(job, "start")
        cluster.signal("anna", signal.SIGTERM)

        async def stopping() -> bool:
            return "stopping" in cluster.log("anna")

        await cluster.until(stopping, "anna to say that it stops")
        cluster.signal("anna", signal.SIGTERM)
        assert await cluster.ended("anna") == 0
        assert (await job.info()).state is State.READY

    async def test_an_idle_node_stops_at_once_and_a_stopped_one_claims_nothing(self, cluster: Cluster) -> None:
        await cluster.start("anna")
        cluster.signal("anna", signal.SIGINT)
        assert await cluster.ended("anna") == 0
        job = await cluster.work.submit(seconds=0.0)
        assert (await job.info()).state is State.READY
