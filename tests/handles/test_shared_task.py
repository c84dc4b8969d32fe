"""Tasks that a library declares without an app, and the apps that take them in."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.errors import InvalidInput
from rota.testing import harness
from tests.node.running import running

LIBRARY = """
import os
import rota

@rota.shared_task(queue="mail", retry=0)
def send(to: str) -> str:
    return f"sent to {to}"

@rota.shared_task
async def where() -> int:
    return os.getpid()

urgent = send.options(priority=0)
"""
MAKING = """
import rota
app = rota.App("sqlite:///{folder}/a.db", include=["mailing"], queues="default:4,mail:4")
"""


@pytest.fixture
def mailing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of a library with shared tasks, and one that makes an app."""
    (tmp_path / "mailing.py").write_text(LIBRARY)
    (tmp_path / "post_office.py").write_text(MAKING.format(folder=tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("mailing")
    for name in ("mailing", "post_office"):
        sys.modules.pop(name, None)


def app_with(*include: str, **settings: Any) -> rota.App:
    return rota.App("sqlite:///:memory:", include=list(include), **settings)


async def test_an_app_takes_in_the_shared_tasks_of_what_it_includes(mailing: Any) -> None:
    app = app_with("mailing")
    async with harness(app) as rota_test:
        job = await mailing.send.submit(to="you")
        urgent = await mailing.urgent.submit(to="me")
        await rota_test.drain()
        assert await job.result() == "sent to you"
        info = await urgent.info()
        assert (info.queue, info.priority, info.result) == ("mail", 0, "sent to me")
    assert sorted(task.name for task in app._core.catalogue) == ["send", "where"]
    assert mailing.send("nobody") == "sent to nobody"
    assert repr(mailing.send) == "<Task 'send' (to)>"


async def test_it_needs_an_app(mailing: Any) -> None:
    expected = r"shared task 'send': 'without an app' is not valid; .* App\(include=\['mailing'\]\)"
    with pytest.raises(InvalidInput, match=expected):
        await mailing.send.submit(to="you")
    async with app_with("mailing"):
        pass  # one that is closed is not meant
    with pytest.raises(InvalidInput, match=expected):
        await mailing.urgent.submit(to="you")


async def test_with_two_apps_one_is_named(mailing: Any, tmp_path: Path) -> None:
    one = rota.App(f"sqlite:///{tmp_path}/one.db", include=["mailing"], name="one")
    two = rota.App(f"sqlite:///{tmp_path}/two.db", include=["mailing"], name="two")
    async with one, two:
        with pytest.raises(
            InvalidInput, match=r"shared task 'send': 'of several apps: one, two' .* app\.shared\(task\)"
        ):
            await mailing.send.submit(to="you")
        job = await two.shared(mailing.urgent).submit(to="you")
        assert (await (await two.job(job.id)).info()).priority == 0
        assert len(one._core.catalogue) == 0
        await one.close()
        await mailing.send.submit(to="me")  # now it is clear
        assert len(one._core.catalogue) == 0


async def test_an_app_that_was_dropped_is_not_in_the_way(mailing: Any) -> None:
    app_with("mailing").load()  # in a cycle with its tasks
    async with app_with("mailing") as app:
        job = await mailing.send.submit(to="you")
        assert (await (await app.job(job.id)).info()).task == "send"


async def test_names_clash_where_they_are_taken_in(mailing: Any) -> None:
    app = app_with("mailing")
    app.task(name="send")(lambda: None)
    with pytest.raises(InvalidInput, match="'send' is not valid; expected a name that no other task of this app has"):
        app.load()


def test_what_is_no_shared_task_of_the_app_is_refused(mailing: Any) -> None:
    app = app_with("json")
    with pytest.raises(InvalidInput, match=r"a shared task of a module that this app includes \(json\)"):
        app.shared(mailing.send)
    with pytest.raises(InvalidInput, match="a shared task of a module"):
        app.shared(app.task(name="own")(lambda: None))
    with pytest.raises(InvalidInput, match="a function in a module"):
        exec("import rota\n@rota.shared_task\ndef lost(): ...", {})


async def test_it_can_be_scheduled(mailing: Any) -> None:
    app = app_with("mailing")
    app.every("1h", name="hourly", args={"to": "all"})(mailing.send)
    async with harness(app) as rota_test:
        await app.schedule("daily", mailing.urgent, every="1d", args={"to": "one"})
        await rota_test.advance("25h")
        counts = [len(await rota.Schedule(app, name).history()) for name in ("hourly", "daily")]
        assert counts == [25, 1]


async def test_a_package_gives_the_tasks_of_its_modules(
    mailing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "parcels"
    package.mkdir()
    (package / "__init__.py").write_text("from parcels.tasks import wrap\n")
    (package / "tasks.py").write_text("import rota\n@rota.shared_task\ndef wrap() -> None: ...\n")
    importlib.invalidate_caches()
    app = app_with("parcels")
    app.load()
    assert [task.name for task in app._core.catalogue] == ["wrap"]
    for name in ("parcels", "parcels.tasks"):
        monkeypatch.delitem(sys.modules, name)


async def test_it_runs_in_processes_of_a_node(mailing: Any) -> None:
    app: rota.App = importlib.import_module("post_office").app
    async with running(app):
        assert await (await mailing.send.submit(to="you")).result("30s") == "sent to you"
        assert await (await mailing.where.submit()).result("30s") != os.getpid()
