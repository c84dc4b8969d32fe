"""`rota job list --watch`: what is printed when."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout, suppress
from pathlib import Path

import pytest

from rota.app_core import AppCore
from rota.cli import watching
from rota.cli.columns import columns_of
from rota.cli.main import parse
from rota.clients.jobs import JobsClient
from rota.errors import StoreUnavailable
from rota.model.job import NewJob, Spec
from rota.store.values import JobFilter, JobPage
from tests.cli.jobs_there import TASKS, arrange
from tests.cli.program import LONG, on_terminal


class Paper(io.TextIOWrapper):
    """What was printed can be waited for."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)
        self._more = asyncio.Event()

    def write(self, text: str) -> int:
        self._more.set()
        return super().write(text)

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return]

    async def until(self, count: int) -> list[str]:
        """So many lines were printed."""
        async with asyncio.timeout(LONG):
            while self.text.count("\n") < count:
                self._more.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.05):  # the bytes of JSON lines don't come through `write`
                        await self._more.wait()
        return self.text.splitlines()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[JobsClient]:
    app = AppCore(f"sqlite:///{tmp_path}/rota.db")
    try:
        yield await app.client()
    finally:
        await app.close()


@asynccontextmanager
async def watched(client: JobsClient, *words: str) -> AsyncIterator[Paper]:
    args = parse(["job", "list", "--watch", *words])
    paper = Paper()
    with redirect_stdout(paper):
        task = asyncio.create_task(watching.watch(args, client, None, columns_of(args.columns) if args.columns else ()))
        try:
            yield paper
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def order(client: JobsClient, task: str) -> str:
    job = NewJob(client.job_ids(1)[0], task, Spec.command(["true"]))
    await client.submit([job])
    return job.id


async def test_a_pipe_gets_new_and_changed_jobs(client: JobsClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BACKSTOP", LONG)  # only wake-ups tell
    ids = await arrange(client.store)
    async with watched(client, "task:report OR task:new") as paper:
        first = await paper.until(3)
        assert [line.split()[0] for line in first] == ["ID", ids[3], ids[2]]
        new = await order(client, "new")
        assert (await paper.until(4))[3].split()[:3] == [new, "new", "ready"]
        await order(client, "other")
        await client.cancel([ids[2]], "enough")
        changed = (await paper.until(5))[4]
        assert (changed.split()[:3], changed.split()[-1]) == ([ids[2], "report", "cancelled"], "enough")
    assert paper.text.count("\n") == 5
    assert "\x1b" not in paper.text


async def test_a_change_is_one_of_what_is_shown(client: JobsClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BACKSTOP", 0.01)  # what no wake-up tells, such as another priority
    ids = await arrange(client.store)
    async with watched(client, "--columns", "id,priority", "task:report") as paper:
        await paper.until(3)
        await client.cancel([ids[2]])
        await client.reprioritise([ids[3]], 1)
        assert (await paper.until(4))[3:] == [f"{ids[3]}  1"]


async def test_json_is_a_line_for_each_job(client: JobsClient) -> None:
    ids = await arrange(client.store)
    async with watched(client, "--json", "task:report") as paper:
        assert [json.loads(line)["id"] for line in await paper.until(2)] == [ids[3], ids[2]]
        await client.cancel([ids[3]])
        assert json.loads((await paper.until(3))[2])["state"] == "cancelled"


async def test_a_store_that_is_away_for_a_while_is_asked_again(
    client: JobsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await arrange(client.store)
    monkeypatch.setattr(watching, "BACKSTOP", 0.01)
    page, failed = client.page, asyncio.Event()

    async def broken(query: JobFilter) -> JobPage:
        failed.set()
        raise StoreUnavailable("away")

    async with watched(client, "task:report OR task:new") as paper:
        await paper.until(3)
        monkeypatch.setattr(client, "page", broken)
        await asyncio.wait_for(failed.wait(), LONG)
        monkeypatch.setattr(client, "page", page)
        new = await order(client, "new")
        assert new in (await paper.until(4))[3]
    monkeypatch.setattr(client, "page", broken)
    with pytest.raises(StoreUnavailable):  # but not if it never was there
        await watching.watch(parse(["job", "list", "--watch"]), client, None, ())


@pytest.mark.slow
def test_a_terminal_shows_the_list_as_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db"

    async def fill() -> list[str]:
        app = AppCore(url)
        try:
            return await arrange((await app.client()).store)
        finally:
            await app.close()

    ids = asyncio.run(fill())
    told = False

    def act(shown: str, pid: int) -> None:
        nonlocal told
        if "Ctrl-C ends" in shown and not told:
            told = True
            os.kill(pid, signal.SIGINT)

    code, shown = on_terminal(tmp_path, "job", "list", "--watch", "task:report", act=act, env={"ROTA_STORE": url})
    assert code == 130
    assert shown.startswith("\x1b[?1049h")
    assert "2 jobs; Ctrl-C ends" in shown
    rest = shown.split("\x1b[?1049l")[1]
    assert [job in rest for job in ids] == [TASKS[n] == "report" for n in range(len(ids))]
