"""Schedules that the code of an app declares: kept, changed and removed with the code, and left alone in doubt."""

from __future__ import annotations

import asyncio

import pytest

from rota.clients import schedules as module
from rota.clients.schedules import SchedulesClient
from rota.declared_schedules import Declared, LoadedCode, reconcile
from rota.model.principal import LOCAL
from rota.model.times import HOUR, MINUTE
from rota.model.trigger.rules import Every
from rota.store.base import Store
from rota.telemetry.events import Event, ScheduleDeclared, SchedulesUndeclared
from tests.contracts.timetables import ORDER, events, keep, minutely, new, standing
from tests.contracts.world import ALICE, World

EACH_MINUTE = Every(MINUTE)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "A_MOMENT", 0)


@pytest.fixture
def planning(world: World) -> SchedulesClient:
    return SchedulesClient(world.store, LOCAL, world.chance)


def declared(name: str, where: str | None = "tasks", rule: Every = EACH_MINUTE) -> Declared:
    return Declared(minutely(name, rule=rule), ORDER, where)


async def start(
    planning: SchedulesClient,
    *wanted: Declared,
    imported: tuple[str, ...] = ("tasks",),
    app: str = "billing",
    elsewhere: tuple[str, ...] = (),
) -> list[Event]:
    """A node of the app starts that has imported these modules."""
    known = LoadedCode(app, lambda name: name in imported, elsewhere)
    return await reconcile(planning, LOCAL, known, wanted)


async def names(planning: SchedulesClient, app: str | None = None) -> list[str]:
    return [info.name async for info in planning.all(app)]


def changes(told: list[Event]) -> list[tuple[str, str]]:
    return [(event.name, event.how) for event in told if isinstance(event, ScheduleDeclared)]


def left(told: list[Event]) -> list[tuple[tuple[str, ...], str]]:
    return [(event.names, event.why) for event in told if isinstance(event, SchedulesUndeclared)]


# -- with the code ----------------------------------------------------------------------------------------------------


async def test_what_an_app_declares_is_added_changed_and_removed(world: World, planning: SchedulesClient) -> None:
    await planning.save(minutely("by hand"), ORDER)
    await start(planning, declared("m"), app="mail")
    assert changes(await start(planning, declared("a"), declared("b"))) == [("a", "added"), ("b", "added")]
    before = {name: await standing(world, name) for name in ("b", "by hand", "m")}
    told = await start(planning, declared("b", rule=Every(HOUR)), declared("c"))
    assert changes(told) == [("b", "changed"), ("c", "added"), ("a", "removed")]
    assert await names(planning, "billing") == ["b", "c"]
    assert (await standing(world, "b")).timing != before["b"].timing
    assert [await standing(world, name) for name in ("by hand", "m")] == [before["by hand"], before["m"]]
    async with world.unchanged():
        assert await start(planning, declared("b", rule=Every(HOUR)), declared("c")) == []
    await start(planning)
    assert await names(planning) == ["by hand", "m"]


async def test_each_change_is_one_event_with_the_user_the_app_and_the_module(
    world: World, planning: SchedulesClient
) -> None:
    await start(planning, declared("a"))
    await start(planning, declared("a", rule=Every(HOUR)))
    await start(planning, imported=())
    await start(planning, declared("a", rule=Every(HOUR)))
    await start(planning)
    of_app = {"by": "local", "app": "billing"}
    assert await events(world) == [
        ("schedule.saved", "local", "a", of_app | {"how": "added", "module": "tasks"}),
        ("schedule.saved", "local", "a", of_app | {"how": "changed", "module": "tasks"}),
        ("schedule.undeclared", "local", "a", of_app | {"module": "tasks"}),
        ("schedule.saved", "local", "a", of_app | {"how": "changed", "module": "tasks"}),
        ("schedule.removed", "local", "a", of_app),
    ]


async def test_nodes_of_an_app_that_start_at_once_agree(world: World, planning: SchedulesClient) -> None:
    await start(planning, declared("old"), declared("older"))
    nodes = [SchedulesClient(world.store, LOCAL, world.chance) for _ in range(4)]
    wanted = [declared(name) for name in ("a", "b", "c")]
    told = await asyncio.gather(*(start(node, *wanted) for node in nodes))
    assert await names(planning) == ["a", "b", "c"]
    done = sorted(one for some in told for one in changes(some))
    assert done == [("a", "added"), ("b", "added"), ("c", "added"), ("old", "removed"), ("older", "removed")]


async def test_an_app_with_more_schedules_than_a_page_holds(
    planning: SchedulesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 3)
    many = [f"s{n:02}" for n in range(10)]
    await start(planning, *map(declared, many))
    assert await names(planning) == many
    assert left(await start(planning, imported=())) == [(tuple(many), "module tasks was not imported")]
    assert None not in [info.undeclared_at async for info in planning.all()]
    await start(planning)
    assert await names(planning) == []


# -- in doubt ---------------------------------------------------------------------------------------------------------


async def test_a_module_that_was_not_imported_keeps_its_schedules(world: World, planning: SchedulesClient) -> None:
    await start(planning, declared("a"), declared("b", "other"), imported=("tasks", "other"))
    before = await standing(world, "a")
    told = await start(planning, declared("b", "other"), imported=("other",))
    assert left(told) == [(("a",), "module tasks was not imported")]
    info = await standing(world, "a")
    assert (info.revision, info.next_at, info.undeclared_at) == (before.revision, before.next_at, world.clock.now())
    (finding,) = [one for one in await world.store.examine() if one.name == "declared schedules"]
    assert not finding.ok
    assert "not declared by the node of their app that started last: a; start one" in finding.text
    world.clock.advance(5)
    async with world.unchanged():
        assert len(await start(planning, declared("b", "other"), imported=("other",))) == 1, "told at each start"
    assert changes(await start(planning, declared("a"), declared("b", "other"))) == [("a", "back")]
    assert (await standing(world, "a")).undeclared_at is None
    (finding,) = [one for one in await world.store.examine() if one.name == "declared schedules"]
    assert finding.ok


async def test_a_pause_outlives_redeclaration_and_absence(world: World, planning: SchedulesClient) -> None:
    await start(planning, declared("a"))
    await planning.pause("a", "holidays")
    async with world.unchanged():
        await start(planning, declared("a"))
    await start(planning, declared("a", rule=Every(HOUR)))
    await start(planning, imported=())
    assert left(await start(planning)) == [(("a",), "module tasks declares them no more, but they are paused")]
    assert changes(await start(planning, declared("a"))) == [("a", "changed")]
    info = await standing(world, "a")
    assert (info.paused, info.paused_by, info.note) == (True, "local", "holidays")
    await planning.resume("a")
    assert changes(await start(planning)) == [("a", "removed")]


async def test_a_pause_that_comes_while_it_is_being_removed_wins(
    world: World, planning: SchedulesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(planning, declared("a"))
    remove = type(world.store).remove_schedule

    async def too_late(self: Store, who: object, name: str, *rest: object) -> bool:
        monkeypatch.setattr(type(world.store), "remove_schedule", remove)
        await planning.pause(name, "just now")
        return await remove(self, who, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(type(world.store), "remove_schedule", too_late)
    assert changes(await start(planning)) == []
    assert (await standing(world, "a")).note == "just now"


async def test_schedules_of_before_modules_were_known_stay_until_they_are_declared(
    world: World, planning: SchedulesClient
) -> None:
    for name in ("a", "b"):
        await world.store.put_schedule(LOCAL, new(minutely(name), world.clock.now(), app="billing"), None)
    told = await start(planning, declared("a"))
    assert changes(told) == [("a", "moved")]
    assert left(told) == [(("b",), "it is not known which module declared them")]
    assert changes(await start(planning)) == [("a", "removed")]
    assert await names(planning) == ["b"]


async def test_of_two_modules_that_declare_one_name_the_last_has_it(planning: SchedulesClient) -> None:
    await start(planning, declared("a", "one"), imported=("one",))
    assert changes(await start(planning, declared("a", "two"), imported=("two",))) == [("a", "moved")]
    assert left(await start(planning, imported=("one",))) == [(("a",), "module two was not imported")]
    assert changes(await start(planning, imported=("one", "two"))) == [("a", "removed")]


async def test_what_another_app_object_of_that_name_declares_is_not_touched(
    world: World, planning: SchedulesClient
) -> None:
    await start(planning, declared("a"))
    async with world.unchanged():
        assert await start(planning, elsewhere=("a",)) == []


# -- the verb of the store --------------------------------------------------------------------------------------------


async def test_only_what_is_as_it_was_read_is_marked(world: World) -> None:
    now = world.clock.now()
    for name in ("a", "b", "c"):
        await world.store.put_schedule(LOCAL, new(minutely(name), now, app="billing", module="tasks"), None)
    await keep(world, "hers", ALICE)
    a, b, c = [await standing(world, name) for name in ("a", "b", "c")]
    async with world.unchanged():
        assert await world.store.undeclare_schedules(LOCAL, "billing", []) == []
        assert await world.store.undeclare_schedules(LOCAL, "billing", [("a", a.revision + 1), ("nothing", 1)]) == []
        assert await world.store.undeclare_schedules(LOCAL, "mail", [("a", a.revision)]) == []
        assert await world.store.undeclare_schedules(ALICE, "billing", [("a", a.revision)]) == []
    read = [(one.name, one.revision) for one in (c, a)]
    assert await world.store.undeclare_schedules(LOCAL, "billing", read) == ["a", "c"]
    read.append(("b", b.revision))
    assert await world.store.undeclare_schedules(LOCAL, "billing", read) == ["b"], "the others were marked before"
    assert await world.store.put_schedule(LOCAL, new(minutely("a"), now, app="billing", module="jobs"), a.revision)
    info = await standing(world, "a")
    assert (info.module, info.undeclared_at) == ("jobs", None)
