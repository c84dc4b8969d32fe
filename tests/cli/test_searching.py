"""A long search: its pages, its progress, and where it stopped."""

from __future__ import annotations

import asyncio
import io
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.app_core import AppCore
from rota.cli import live
from rota.cli.columns import columns_of
from rota.cli.listing import _show
from rota.cli.main import parse
from rota.cli.searching import Search
from rota.clients.jobs import JobsClient
from rota.store.values import JobCursor, JobFilter, JobPage, SearchProgress
from tests.cli.jobs_there import arrange


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[JobsClient]:
    app = AppCore(f"sqlite:///{tmp_path}/rota.db")
    try:
        yield await app.client()
    finally:
        await app.close()


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class Slow:
    """A client whose search finds a job in every second page, and ends in the fourth or is cut off."""

    def __init__(self, client: JobsClient, jobs: list[Any], cut: bool) -> None:
        self._client, self._jobs, self._cut = client, jobs, cut
        self.store, self.who, self.asked = client.store, client.who, list[JobFilter]()

    async def page(self, query: JobFilter) -> JobPage:
        self.asked.append(query)
        number = len(self.asked)
        if number == 4 and self._cut:
            raise asyncio.CancelledError
        found = [self._jobs[number // 2]] if number % 2 == 0 else []
        last = None if number == 4 else JobCursor(f"0000000{number}-0000-7000-8000-000000000000")
        return JobPage(found, last, SearchProgress(1_000, 10_000 - 1_000 * number, 1_800_000_000_000_000))


async def search(client: Any, *words: str) -> tuple[Namespace, Search]:
    args = parse(["job", "list", *words])
    found = Search(args, client, None)
    await found.begin()
    return args, found


async def test_a_long_search_shows_its_way_and_prints_what_it_finds(
    client: JobsClient, capsys: pytest.CaptureFixture[str]
) -> None:
    await arrange(client.store)
    jobs = await client.find(JobFilter())
    slow: Any = Slow(client, jobs, cut=False)
    with redirect_stderr(Screen()) as screen:
        args, found = await search(slow, "error~x", "--columns", "id", "--limit", "500")
        await _show(args, slow, found, columns_of("id"))
    assert capsys.readouterr().out.split() == ["id", jobs[1].id, jobs[2].id]
    shown = screen.getvalue()
    assert "1,000 of about 9,000 jobs examined, back to 2027-01-15 08:00Z" in shown
    assert "3,000 of about 9,000 jobs examined" in shown
    assert shown.endswith(live._CLEAR), "nothing of it stays"
    assert [one.limit for one in slow.asked] == [200, 200, 200, 200]
    assert len({one.where for one in slow.asked}) == 1


async def test_ctrl_c_ends_a_search_and_says_where_it_goes_on(
    client: JobsClient, capsys: pytest.CaptureFixture[str]
) -> None:
    await arrange(client.store)
    jobs = await client.find(JobFilter())
    slow: Any = Slow(client, jobs, cut=True)
    with redirect_stderr(Screen()) as screen:
        args, found = await search(slow, "finished>-2h", "--columns", "id")
        with pytest.raises(asyncio.CancelledError):
            await _show(args, slow, found, columns_of("id"))
    assert capsys.readouterr().out.split() == ["id", jobs[1].id]
    stopped = screen.getvalue().splitlines()[-1]
    cursor = stopped.rpartition(" ")[2]
    assert stopped.endswith(f"rota: stopped; it goes on with --after {cursor}")
    _, again = await search(slow, "finished>-2h", "--after", cursor)
    assert msgspec.structs.replace(again.query, limit=0) == msgspec.structs.replace(found.query, limit=0)
    assert again._place == JobCursor("00000003-0000-7000-8000-000000000000")


async def test_what_was_not_printed_is_not_behind_that_place(client: JobsClient) -> None:
    await arrange(client.store)
    slow: Any = Slow(client, await client.find(JobFilter()), cut=True)
    _, found = await search(slow)
    pages = found.pages()
    await anext(pages)
    assert found._place == JobCursor("00000001-0000-7000-8000-000000000000")
    with pytest.raises(asyncio.CancelledError):
        await anext(pages)
    assert found._place == JobCursor("00000003-0000-7000-8000-000000000000")


async def test_orders_that_are_sorted_anew_come_in_large_pages(client: JobsClient) -> None:
    await arrange(client.store)
    slow: Any = Slow(client, await client.find(JobFilter()), cut=False)
    _, found = await search(slow, "--sort", "task", "--limit", "5000")
    async for _ in found.pages():
        pass
    assert [one.limit for one in slow.asked] == [1_000] * 4
