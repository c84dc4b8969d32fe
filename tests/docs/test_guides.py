"""The guides for new users: what they print works."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import rota
from rota.cli.main import parse
from rota.testing import harness
from tests.cli.program import Rota
from tests.docs.pages import ROOT, blocks, run_page


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_quick_start_from_the_first_line_to_the_last(tmp_path: Path) -> None:
    shop, tests = blocks("docs/quickstart.md", "python")
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "test_shop.py").write_text(f"from shop import app, welcome\n{tests}")
    here = Rota(tmp_path)
    node = here.start("up", "--app", "shop")
    node.read_until("is up")
    done = subprocess.run([sys.executable, "shop.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "welcomed 7\n", done.stderr
    charged = here("submit", "charge", '{"order": 1, "cents": 999}', "--wait")
    assert charged.returncode == 0, charged.stderr
    assert [one["name"] for one in here.json("schedule", "list")] == ["clean_up"]
    assert node.stop() == 0
    tested = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    ran = subprocess.run(tested, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "1 passed" in ran.stdout, ran.stdout


@pytest.mark.parametrize("page", ["quickstart", "recipes", "deployment", "frameworks"])
def test_the_commands_of_the_guides_are_understood(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text()
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("rota ")]
    for line in lines:
        assert parse(shlex.split(line, comments=True)[1:]).module


async def test_the_recipes(capfd: pytest.CaptureFixture[str]) -> None:
    page = run_page("docs/recipes.md")
    app: rota.App = page["app"]
    async with harness(app, now="2026-11-01T00:00:00+00:00") as rota_test:
        await page["later"]()
        first, second = await page["once"](7), await page["once"](7)
        assert first.id == second.id
        await page["urgent"]()
        await page["edited"](3)
        polled = await page["poll_partner"].submit(order=1)
        imported = await page["import_pages"].submit(pages=3)
        squares = await page["fan_out"]()
        rota_test.fake_command("./publish.sh", exit_code=1)
        guarded = await page["guarded"]()
        thumbnail = await page["thumbnail"]("a.png")
        rota_test.fake_command("convert")
        with pytest.raises(rota.UnknownTask, match=r"'reports.monthly'; no node has offered it"):
            await page["report"]()
        await page["tidy"]()
        assert "Changes(matched=3, changed=3)" in capfd.readouterr().out
        await rota_test.drain()
        assert await first.result() == "welcomed 7"
        assert (await polled.result(), (await polled.info()).failures) == ("done", 2)
        assert await squares.result() == 285
        assert {job.task: job.state for job in await guarded.jobs()}["alarm"] == "succeeded"
        assert (await thumbnail.info()).state == "succeeded"
        assert await page["how_far"](imported.id) == "67% page 3 of 3"
        await page["greet"].submit(user_id=1)
        await rota_test.drain()


async def test_waiting_for_many_results() -> None:
    page = run_page("docs/recipes.md")
    async with harness(page["app"], eager=True):
        assert await page["welcome_all"]([1, 2]) == ["welcomed 1", "welcomed 2"]


@pytest.mark.slow
def test_fastapi_and_flask(tmp_path: Path) -> None:
    space: dict[str, Any] = {"__name__": "web"}
    for code in blocks("docs/frameworks.md", "python")[:2]:
        exec(compile(code, "docs/frameworks.md", "exec", dont_inherit=True), space)
    with TestClient(space["web"]) as client:
        job = client.post("/users/7/welcome").json()["job"]
        assert client.get(f"/jobs/{job}").json() == {"state": "ready", "result": None}
        reminded = {client.post("/users/7/remind").json()["job"] for _ in range(2)}
        assert len(reminded) == 1
        assert client.get("/jobs/nothing").status_code == 404
    answer = space["site"].test_client().post("/users/8/welcome")
    assert answer.status_code == 202
    with space["jobs"] as jobs:
        assert [info.args for info in jobs.jobs(task="welcome", state="ready")] == [{"user_id": 8}, {"user_id": 7}]


DJANGO = """
from rota.testing import run
from shop.jobs import confirm, jobs_of_shop
job = run(jobs_of_shop, confirm, order=7)
assert (job.state, job.result) == ("succeeded", "confirmed 7"), job
print("confirmed")
"""


@pytest.mark.slow
def test_django(tmp_path: Path) -> None:
    code = blocks("docs/frameworks.md", "python")[2]
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/settings.py").write_text(
        'DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite"}}\nUSE_TZ = True\n'
    )
    (tmp_path / "shop/jobs.py").write_text(f"import rota\n{code}")
    done = subprocess.run([sys.executable, "-c", DJANGO], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "confirmed\n", done.stderr
