"""Long spans: schedules fire at their instants, and everything else happens in between, as one by one."""

from __future__ import annotations

import pytest

import rota
from rota import testing
from rota.model.times import SECOND

app = rota.App("sqlite:///never-made.db", user="me", name="spans")
log: list[tuple[int, str]] = []
start = 0


def note(what: str) -> None:
    log.append(((app._core.clock.now() - start) // SECOND, what))


@app.every("5s")
@app.task
async def five() -> None:
    note("five")


@app.every("35s", overlap="skip")
@app.task(retry=rota.Retry(1, backoff="13s", jitter=0))
async def failing(ctx: rota.Context) -> None:
    note(f"failing {ctx.attempt}")
    raise ConnectionError


@app.cron("*/2 * * * *")
@app.task(queue="other")
def ordering() -> None:
    note("ordering")
    later.options(delay="3s").submit_sync()
    later.submit_sync()


@app.task(exclusive="later")
async def later() -> None:
    note("later")


async def record(monkeypatch: pytest.MonkeyPatch, in_memory: bool) -> list[tuple[int, str]]:
    global start
    log.clear()
    block = testing.harness(app, now="2027-01-01T00:00:00+00:00")
    monkeypatch.setattr(block._means, "in_memory", in_memory)
    async with block as rota_test:
        start = rota_test.clock.now()
        await rota_test.advance("4m1s")
        await rota_test.advance("59s")
        assert {fire.state for fire in await rota.Schedule(app, "five").history()} == {"succeeded"}
        assert rota_test.clock.now() == start + 300 * SECOND
    return list(log)


async def test_a_long_span_is_as_if_each_look_had_been_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, careful = [await record(monkeypatch, in_memory) for in_memory in (True, False)]
    assert quick == careful
    assert [at for at, what in quick if what == "five"] == list(range(5, 305, 5))
    assert [at for at, what in quick if what == "later"] == [120, 123, 240, 243]
    assert [(at, what) for at, what in quick if at < 90 and "failing" in what] == [
        (15, "failing 1"), (28, "failing 2"), (50, "failing 1"), (63, "failing 2"), (85, "failing 1"),
    ]  # fmt: skip


async def test_fires_look_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of a schedule that fires every five seconds takes seconds: each fire is a handful of calls."""
    async with testing.harness(app) as rota_test:
        store = (await app._core.client()).store
        for name in ("failing", "ordering"):
            await rota.Schedule(app, name).remove()
        looks: list[str] = []
        for verb in ("find", "counts", "promote", "admit", "settle", "release"):
            carry_out = getattr(store, verb)

            async def counted(*args: object, verb: str = verb, carry_out: object = carry_out) -> object:
                looks.append(verb)
                return await carry_out(*args)  # type: ignore[operator]

            monkeypatch.setattr(store, verb, counted)
        log.clear()
        await rota_test.advance("20m")
    assert (len(log), len(looks) < 40) == (240, True), looks
