"""Which module declares a schedule, and what becomes of it when a node starts with half of the app."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.errors import InvalidInput
from rota.tasks.modules import ImportFailed
from rota.telemetry.events import Event, ScheduleDeclared, SchedulesUndeclared

APP = """
import rota
app = rota.App("sqlite:///{place}", name="billing")
"""
TASKS = """
from shop.app import app

@app.cron("0 3 * * *")
async def nightly() -> None: ...

@app.every("90s", name="sweep")
async def sweeping() -> None: ...
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package: an app, and a module with schedules that the app does not import by itself."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "app.py").write_text(APP.format(place=tmp_path / "a.db"))
    (folder / "tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


async def start(*modules: str) -> list[Event]:
    """A node starts in a process of its own, with these modules."""
    _forget()
    importlib.invalidate_caches()
    for module in modules:
        importlib.import_module(f"shop.{module}")
    app: rota.App = sys.modules["shop.app"].app
    told: list[Event] = []
    app._core.bus.subscribe(told.append)
    async with app:
        await app.node()
    return told


async def standing(shop: Path) -> dict[str, tuple[str | None, bool, bool]]:
    async with rota.App(f"sqlite:///{shop.parent}/a.db") as app:
        found = await app.schedules()
        return {info.name: (info.module, info.undeclared_at is not None, info.paused) for info in found}


def changes(told: list[Event]) -> list[tuple[str, str]]:
    return [(event.name, event.how) for event in told if isinstance(event, ScheduleDeclared)]


async def test_half_of_an_app_removes_nothing_and_says_so(shop: Path) -> None:
    assert changes(await start("app", "tasks")) == [("nightly", "added"), ("sweep", "added")]
    async with rota.App(f"sqlite:///{shop.parent}/a.db") as person:
        await rota.Schedule(person, "nightly").pause("not now")
    told = await start("app")
    why = "module shop.tasks was not imported"
    assert told == [SchedulesUndeclared("local", "billing", ("nightly", "sweep"), why)]
    assert await standing(shop) == {"nightly": ("shop.tasks", True, True), "sweep": ("shop.tasks", True, False)}
    assert changes(await start("app", "tasks")) == [("nightly", "back"), ("sweep", "back")]
    assert await standing(shop) == {"nightly": ("shop.tasks", False, True), "sweep": ("shop.tasks", False, False)}


async def test_a_declaration_that_is_deleted_from_its_module_removes_the_schedule(shop: Path) -> None:
    await start("app", "tasks")
    (shop / "tasks.py").write_text("from shop.app import app\n")
    assert changes(await start("app", "tasks")) == [("nightly", "removed"), ("sweep", "removed")]
    assert await standing(shop) == {}


async def test_a_module_that_was_renamed_takes_its_schedules_along(shop: Path) -> None:
    await start("app", "tasks")
    (shop / "tasks.py").unlink()
    (shop / "jobs.py").write_text(TASKS.replace("sweep", "clean"))
    told = await start("app", "jobs")
    assert changes(told) == [("nightly", "moved"), ("clean", "added")]
    assert await standing(shop) == {
        "clean": ("shop.jobs", False, False),
        "nightly": ("shop.jobs", False, False),
        "sweep": ("shop.tasks", True, False),
    }


async def test_a_process_that_only_orders_jobs_declares_nothing(shop: Path) -> None:
    await start("app", "tasks")
    _forget()
    app: rota.App = importlib.import_module("shop.app").app
    async with app:
        await app.submit_command(["true"])
    assert await standing(shop) == {"nightly": ("shop.tasks", False, False), "sweep": ("shop.tasks", False, False)}


async def test_two_apps_of_one_name_in_a_process_keep_each_others_schedules(shop: Path) -> None:
    await start("app", "tasks")
    _forget()
    first: rota.App = importlib.import_module("shop.tasks").app
    async with rota.App(f"sqlite:///{shop.parent}/a.db", name="billing") as second:
        await second._core.declare()
    assert sorted(await standing(shop)) == ["nightly", "sweep"]
    await first.close()
    await first._core.client()  # a closed app may be used again
    async with rota.App(f"sqlite:///{shop.parent}/a.db", name="billing") as second:
        await second._core.declare()
    assert sorted(await standing(shop)) == ["nightly", "sweep"]
    await first.close()


async def test_limits_gates_and_priorities_of_a_person_outlive_a_start(shop: Path) -> None:
    await start("app", "tasks")
    async with rota.App(f"sqlite:///{shop.parent}/a.db") as person:
        admissions = await person.admissions()
        await admissions.set_limit("billing", at_once=3)
        await admissions.pause_queue("default", "audit")
        await admissions.pause(reason="audit", task="nightly")
        job = await person.submit_command(["true"], delay="1d", priority=7)
        await (await person._core.client()).reprioritise([job.id], 1)
        before = await decided(person, job)
    (shop / "tasks.py").write_text(TASKS.replace("0 3", "0 4"))
    for modules in (("app",), ("app", "tasks")):
        await start(*modules)
    async with rota.App(f"sqlite:///{shop.parent}/a.db") as person:
        assert await decided(person, await person.job(job.id)) == before


async def decided(person: rota.App, job: rota.Job[Any]) -> tuple[object, ...]:
    admissions = await person.admissions()
    paused = [(one.name, one.paused_by, one.note) for one in await admissions.queues()]
    return await admissions.limits(), await admissions.gates(), paused, (await job.info()).priority


def test_a_name_that_two_modules_declare_is_refused_and_both_are_named(shop: Path) -> None:
    (shop / "more.py").write_text(
        TASKS.replace("def nightly", "def other").replace('"0 3 * * *"', '"@daily", name="nightly"')
    )
    importlib.import_module("shop.tasks")
    with pytest.raises(InvalidInput, match=r"'nightly' is not valid; .* shop\.tasks declares one"):
        importlib.import_module("shop.more")


@pytest.mark.parametrize("name", ["", "billing"])
async def test_an_app_that_includes_its_modules_declares_all_of_them(shop: Path, name: str) -> None:
    def write(modules: str) -> None:
        text = APP.format(place=shop.parent / "a.db").replace(', name="billing"', f", name={name!r}")
        (shop / "app.py").write_text(text.replace(", name", f", include=[{modules}], name"))

    write('"shop.tasks"')
    assert changes(await start("app")) == [("nightly", "added"), ("sweep", "added")]
    write("")
    assert changes(await start("app")) == []  # its module was not imported
    write('"shop.tasks", "shop.broken"')
    (shop / "tasks.py").write_text("from shop.app import app\n")
    (shop / "broken.py").write_text("1 / 0")
    with pytest.raises(ImportFailed, match=r"include: importing shop\.broken failed: ZeroDivisionError"):
        await start("app")
    assert sorted(await standing(shop)) == ["nightly", "sweep"]  # half an import removes nothing
    (shop / "broken.py").write_text("")
    gone = [("nightly", "removed"), ("sweep", "removed")]
    assert changes(await start("app")) == (gone if name else [])


async def test_an_app_that_is_named_by_its_module_removes_only_schedules_of_its_own_tasks(shop: Path) -> None:
    """Another program may have a module of the same name, and use the same store."""
    (shop / "app.py").write_text(APP.format(place=shop.parent / "a.db").replace(', name="billing"', ""))
    (shop / "tasks.py").write_text(TASKS)
    assert changes(await start("app", "tasks")) == [("nightly", "added"), ("sweep", "added")]
    (shop / "tasks.py").write_text("from shop.app import app\n\n@app.task\nasync def nightly() -> None: ...\n")
    told = await start("app", "tasks")
    assert changes(told) == [("nightly", "removed")]
    why = "their tasks are not in this app, which has only the name of its module, shop.app"
    assert told[-1] == SchedulesUndeclared("local", "shop.app", ("sweep",), why)


PROGRAM = """
import rota
app = rota.App("sqlite:///never-made.db", name="billing")
app.cron("@daily", name="a")(app.task(name="a")(lambda: None))
from rota.tasks.modules import imported
print(*(one.module for one in app._core.declared), imported("jobs"))
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (["jobs.py"], "jobs True"),
        (["-m", "jobs"], "jobs True"),
        (["-m", "inner.jobs"], "inner.jobs False"),
        (["-c", PROGRAM], "None False"),
    ],
)
def test_the_main_program_is_known_as_others_import_it(tmp_path: Path, start: list[str], expected: str) -> None:
    (tmp_path / "inner").mkdir()
    for place in (tmp_path / "jobs.py", tmp_path / "inner" / "jobs.py"):
        place.write_text(PROGRAM)
    done = subprocess.run([sys.executable, *start], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def test_a_declaration_that_was_refused_can_be_made_again() -> None:
    app = rota.App("sqlite:///:memory:", name="billing")

    def nightly() -> None: ...

    with pytest.raises(InvalidInput, match="61"):
        app.cron("61 * * * *")(nightly)
    assert len(app._core.catalogue) == 0
    app.cron("0 3 * * *")(nightly)
    with pytest.raises(
        InvalidInput, match=r"no other task of this app has; .*nightly \(test_declared_schedules.py, line"
    ):
        app.every("1h", name="hourly")(nightly)
    assert [order.name for order in app._core.declared] == ["nightly"]


CELLS = """
import rota
app = rota.App("sqlite:///:memory:", name="notebook")
cell = '''
@app.cron("{} 3 * * *")
def nightly(): return {}

@app.task(name="{}", aliases=["mail"])
def send(): return {}
'''
for number, name in ((1, "send"), (2, "send"), (3, "post")):
    exec(cell.format(number, number, name, number))
print(sorted((task.name, task.function()) for task in app._core.catalogue), app._core.catalogue.get("mail").name)
print([order.options["cron"] for order in app._core.declared])
try:
    app.task(name="post")(lambda: None)
except rota.InvalidInput as error:
    print(error)
"""


def test_a_cell_of_a_notebook_may_run_again() -> None:
    done = subprocess.run([sys.executable, "-c", CELLS], capture_output=True, text=True, check=True)
    tasks, schedules, refused = done.stdout.splitlines()
    assert tasks == "[('nightly', 3), ('post', 3)] post"
    assert schedules == "['3 3 * * *']"
    assert refused.endswith("a name that no other task of this app has; __main__.send (<string>, line 5) has it")
