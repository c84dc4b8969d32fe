"""What README and docs show works: their code runs, their commands are understood, their links lead somewhere."""

from __future__ import annotations

import asyncio
import contextvars
import json
import re
import shlex
import subprocess
import sys
import textwrap
import time
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import django.db
import psycopg
import pytest
import sentry_sdk

import rota
from rota.cli.app_target import load_app
from rota.cli.main import main, parse
from rota.store.values import JobFilter
from rota.testing import harness
from tests.docs.pages import PAGES, ROOT, blocks
from tests.node.running import LONG, running
from tests.servers.postgres import database, shared_server
from tests.servers.web import reply, web


async def test_the_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_QUEUES", "default:8,mail:2")
    space: dict[str, Any] = {}
    (code,) = blocks("README.md", "python")
    exec(compile(code, "README.md", "exec"), space)
    async with running(space["app"]):
        await asyncio.wait_for(space["main"](), LONG)
    assert "welcomed 7" in capsys.readouterr().out


async def test_the_python_of_the_sdk_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for code in blocks("docs/sdk.md", "python"):
        exec(compile(code, "docs/sdk.md", "exec", dont_inherit=True), space)
    assert await space["hello"]("you") == "hello, you"
    async with harness(space["app"]) as rota_test:
        await space["order"]()
        job = await space["monthly"].submit(month=5)
        await rota_test.drain()
        await space["watch"](job)
        assert await job.result() == {"pages": 12}
        assert "working month=5 attempt=1" in await job.logs()
        crawl, convert = await space["crawl"].submit(pages=3), await space["convert"].submit(files=2)
        await rota_test.drain()
        assert await crawl.result() == 3
        progress = (await crawl.info()).progress
        assert progress is not None
        assert (progress.fraction, progress.text) == (1.0, "page 3 of 3")
        assert await convert.result() is None
        await space["typed_orders"]()
        invoice = space["Invoice"](7, Decimal("1.50"))
        booked = await space["book"].submit([invoice])
        await rota_test.drain()
        assert await booked.result() == {"7": invoice}
        with pytest.raises(rota.UnknownTask, match=r"images.shrink"):
            await space["order_elsewhere"]()


def test_the_cron_example_of_the_readme_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "README.md").read_text()
    (code,) = blocks("README.md", "python")
    start = page.index("    @app.cron(")
    example = textwrap.dedent(page[start : page.index("    await app.schedule(")])
    (tmp_path / "readme_shop.py").write_text(f"{code}\n\n{example}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    app = load_app("readme_shop")

    async def a_day() -> None:
        async with harness(app) as rota_test:
            await rota_test.advance("1d")
            (fire,) = await rota.Schedule(app, "nightly").history()
            assert fire.job_id is not None
            assert await (await app.job(fire.job_id)).result() == "swept"

    asyncio.run(a_day())


async def test_the_project_of_the_page_on_layout_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    for code in blocks("docs/layout.md", "python"):
        name = code.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).write_text(code)
    app = load_app("shop")
    try:
        async with harness(app) as rota_test:
            job = await sys.modules["shop.tasks"].welcome.submit(user_id=7)
            await rota_test.drain()
            assert await job.result() == "welcomed 7"
            (sent,) = await (await app._core.client()).find(JobFilter(task="send"))
            assert await rota.Job(app, sent.id).logs() == "to user 7: welcome\n"
            assert [info.name for info in await app.schedules()] == ["nightly"]
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]


async def test_the_python_of_the_page_on_reading_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for code in blocks("docs/reading.md", "python"):
        exec(compile(code, "docs/reading.md", "exec"), space)
    async with harness(space["app"]) as rota_test:
        job = await space["send"].submit(to="nowhere")
        await rota_test.run_due()
        await space["look"]()
        first, count, group = capsys.readouterr().out.splitlines()
        assert (first, count) == (f"{job.id} {{'to': 'nowhere'}} no address: nowhere", "0")
        assert group.startswith("1 ValueError: no address: nowhere (reading.md: send) ")
        await space["mend"]()
        assert capsys.readouterr().out == "Changes(matched=1, changed=1)\n"
        assert (await job.info()).reason == "the mail server is gone"
    await asyncio.to_thread(space["without_an_event_loop"])


@pytest.mark.slow
def test_the_python_of_the_page_on_testing_runs(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("\n".join(blocks("docs/testing.md", "python")))
    (settings,) = blocks("docs/testing.md", "toml")
    (tmp_path / "pyproject.toml").write_text(settings + 'asyncio_default_fixture_loop_scope = "function"\n')
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "shop.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "7 passed" in done.stdout) == (0, True), done.stdout
    assert not list(tmp_path.glob("*.db")), "the store of the app is never made"


class Mailbox(sentry_sdk.Transport):
    """Keeps what Sentry would send."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.events += [item.payload.json for item in envelope.items if item.type == "event"]


async def test_the_python_of_the_page_on_hooks_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    closed: list[str] = []
    monkeypatch.setattr(django.db, "close_old_connections", lambda: closed.append("closed"))
    space: dict[str, Any] = {"time": time, "ContextVar": contextvars.ContextVar}
    for code in blocks("docs/hooks.md", "python"):
        exec(compile(code, "docs/hooks.md", "exec"), space)
    app, box = space["app"], Mailbox()

    @app.task(retry=0)
    def fails() -> None:
        raise ValueError("no luck")

    with sentry_sdk.isolation_scope() as scope:
        scope.set_client(sentry_sdk.Client(dsn="http://key@localhost/1", transport=box, default_integrations=False))
        app.configure(store=f"sqlite:///{tmp_path}/a.db")
        async with running(app):
            space["tenant"].set("acme")
            report, orders = await space["report"].submit(), await space["orders"].submit()
            price, failed = await space["price"].submit(amount=10, currency="USD"), await fails.submit()
            assert await report.result(LONG) == "report of acme"
            assert await orders.result(LONG) == 42
            assert await price.result(LONG) == 11
            assert (await failed.wait(LONG)).state == "failed"
            said = await report.logs()
            assert "attempt 1 of report" in said
            assert re.search(r"took \d+\.\d s", said)
            assert (await report.info()).meta == {"tenant": "acme"}
    (event,) = box.events
    assert event["exception"]["values"][-1]["value"] == "no luck"
    assert event["tags"]["rota.task"] == "fails"
    assert event["contexts"]["rota"]["tenant"] == "acme"
    assert len(closed) == 8


@pytest.mark.slow
async def test_the_python_of_the_page_on_schedules_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for code in blocks("docs/schedules.md", "python"):
        exec(compile(code, "docs/schedules.md", "exec"), space)
    async with harness(space["app"]) as rota_test:
        nightly = await space["plan"]()
        await space["watch"](nightly)
        await rota_test.advance("1d")
        last = (await nightly.history())[0]
        job = await space["app"].job(last.job_id)
        at_three = last.fire.astimezone(ZoneInfo("Europe/Berlin"))
        assert await job.result() == f"invoices of {at_three.isoformat()}"
        assert (at_three.hour, at_three.minute) == (3, 0)
        assert {info.name async for info in (await space["app"]._core.planning()).all()} == {
            "cleanup", "monthly", "nightly", "remind", "sweep",
        }  # fmt: skip
        for name in ("remind", "sweep"):
            assert {fire.state for fire in await rota.Schedule(space["app"], name).history()} == {"succeeded"}


async def test_the_python_of_the_page_on_workflows_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for code in blocks("docs/workflows.md", "python"):
        exec(compile(code, "docs/workflows.md", "exec"), space)
    async with harness(space["app"], allow_commands=True) as rota_test:
        nightly = await space["nightly"]("2027-01-01")
        await rota_test.drain()
        extract, second, *_, loaded, _clean, _alarm = jobs = await nightly.jobs()
        assert [job.state for job in jobs] == [*["succeeded"] * 5, "skipped"]
        assert (await nightly.info()).succeeded
        assert await rota.Job(space["app"], loaded.id).result() == 600
        last = await space["single"](rota.Job(space["app"], extract.id))
        growing = await space["growing"]()
        first, other = (rota.Job(space["app"], one.id) for one in (extract, second))
        totals = await space["totals"](first, other)
        await rota_test.drain()
        assert await totals.result() == 100 + 200 + 1000 + 100
        assert (await last.info()).state == "succeeded"
        assert (await growing.info()).counts == {"succeeded": 6}
        await space["watch"](nightly)
        assert "not needed" not in capsys.readouterr().out
        await rota_test.drain()
        assert (await rota.Job(space["app"], loaded.id).info()).replays == 1


async def test_the_alarm_of_the_page_on_workflows_really_alarms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for code in blocks("docs/workflows.md", "python"):
        exec(compile(code, "docs/workflows.md", "exec"), space)

    async def broken(day: str, part: int) -> int:
        if part == 2:
            raise rota.Fatal("no such part")
        return part

    monkeypatch.setattr(space["extract"]._definition, "function", broken)
    async with harness(space["app"]) as rota_test:
        nightly = await space["nightly"]("2027-01-01")
        await rota_test.drain()
        *_, alarm = jobs = await nightly.jobs()
        assert [job.state for job in jobs] == ["succeeded", "failed", "succeeded", "skipped", "skipped", "succeeded"]
        assert await rota.Job(space["app"], alarm.id).result() == "ops: part 2 failed"
        assert (await nightly.info()).state == "failed"


def test_the_workflow_of_the_page_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "page_on_workflows.py").write_text(blocks("docs/workflows.md", "python")[0])
    (description,) = blocks("docs/workflows.md", "json")
    (tmp_path / "nightly.json").write_text(description)
    assert main(["workflow", "submit", "nightly.json", "--app", "page_on_workflows:app", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["name"], list(made["jobs"])) == ("nightly", ["rows", "more", "sum", "clean", "warn"])


async def test_the_python_of_the_page_on_execution_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for code in blocks("docs/execution.md", "python"):
        exec(compile(code, "docs/execution.md", "exec"), space)
    async with harness(space["app"], allow_commands=True) as rota_test:
        job = await space["order"]()
        await rota_test.drain()
        assert (await job.info()).state == "succeeded"
        assert await job.logs() == "a\nb\n"


@pytest.mark.slow
async def test_the_python_of_the_page_on_order_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for code in blocks("docs/order.md", "python"):
        exec(compile(code, "docs/order.md", "exec"), space)
    with database(shared_server()) as url:
        async with harness(space["app"], allow_commands=True, store=url) as rota_test:
            await space["maintain"]()
            shown = capsys.readouterr().out
            assert "task welc* in queue mail smtp is being moved 0 0" in shown
            assert "db 2 None () 0 None" in shown
            assert "note='new disk'" in shown
            job = await space["submit"]()
            assert "it is ready in queue 'default' with priority 5" in await space["why"](job)
            assert (await job.info()).priority == 2
            await rota_test.run_due()
            counts = await (await space["app"]._core.client()).store.counts(space["app"]._core.who)
            assert counts == {"succeeded": 3}


async def test_the_python_of_the_page_on_http_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for code in blocks("docs/http.md", "python"):
        exec(compile(code, "docs/http.md", "exec"), space)
    with web() as server:
        server.on("/orders", reply(201, '{"order": 1}', content_type="application/json"))
        server.on("/health", reply(200, "well"))
        server.on("/purge", reply(204))
        async with harness(space["app"], allow_commands=True, allow_http=True, http_allow="127.0.0.1") as rota_test:
            job = await space["order"](server.url)
            await space["plan"](server.url)
            await rota_test.drain()
            assert (await job.result())["body"] == {"order": 1}
            await rota_test.advance("1m")
            counts = await (await space["app"]._core.client()).store.counts(space["app"]._core.who)
            assert counts == {"succeeded": 4}
        assert sorted(server.paths()) == ["/health", "/orders", "/purge?at=now"]


def test_the_workflow_of_the_page_on_http_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (description,) = blocks("docs/http.md", "json")
    (tmp_path / "tell.json").write_text(description)
    assert main(["workflow", "submit", "tell.json", "--json"]) == 0
    tell = json.loads(capsys.readouterr().out)["jobs"]["tell"]
    assert main(["job", "show", tell, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["task"], shown["kind"], shown["spec"]["expect"]) == ("tell", "http", ["2xx", "404"])


def test_the_settings_of_the_page_on_http_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (settings,) = blocks("docs/http.md", "toml")
    (tmp_path / "rota.toml").write_text(settings)
    assert rota.App().settings.http_deny == ("private", "*.internal")


async def test_the_code_of_the_postgresql_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with database(shared_server()) as url:
        monkeypatch.setenv("ROTA_STORE", url)
        space: dict[str, Any] = {}
        for code in blocks("docs/postgresql.md", "python"):
            exec(compile(code, "docs/postgresql.md", "exec"), space)
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE TABLE orders (id serial PRIMARY KEY, article text, paid boolean)")
        async with running(space["app"]):
            job = await space["buy"](connection, "a book")
            assert await job.result("30s") == "order 1 is confirmed"
            (order,) = blocks("docs/postgresql.md", "sql")
            job = await space["app"].job(str(await connection.fetchval(order)))
            assert (await job.info()).args == {"order": 7}
        await connection.execute("CREATE TABLE accounts (name text)")

        def open_account() -> Any:
            with psycopg.connect(url) as own:
                return space["open_account"](own, "Ann")

        flow = await asyncio.to_thread(open_account)
        assert (await flow.info()).counts == {"ready": 1, "blocked": 1}
        assert [one.name for one in await space["app"].schedules()] == ["statement of Ann"]
        await space["pay"](connection, 1)
        assert [info.task for info in await (await space["quiet"]._core.client()).find(JobFilter(limit=1))] == [
            "receipt"
        ]
        assert await connection.fetchval("SELECT paid FROM orders")
        await connection.close()
        await space["quiet"].close()
        await space["app"].close()


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("README.md", 18),
        ("docs/schedules.md", 7),
        ("docs/workflows.md", 11),
        ("docs/order.md", 16),
        ("docs/http.md", 4),
        ("docs/moving.md", 2),
        ("docs/layout.md", 2),
    ],
)
def test_the_commands_of_the_pages_are_understood(page: str, least: int) -> None:
    lines = [shlex.split(line, comments=True) for block in blocks(page, "") for line in block.splitlines()]
    commands = [words[1:] for words in lines if words[:1] == ["rota"]]
    assert len(commands) >= least
    for words in commands:
        assert parse(words).module


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page.read_text()):
        if "://" not in target:
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(there), f"{page.name} links to {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.slow
def test_the_demo_runs_to_its_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")], cwd=tmp_path, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode()
    for fact in ("worked at attempt 3", "can't work", "cancelled", "crashed on", "That was all"):
        assert fact in text
    assert list(tmp_path.iterdir()) == []
