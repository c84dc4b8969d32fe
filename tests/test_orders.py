"""Orders, as Python code makes them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

import rota
from rota.errors import InvalidInput, NotSerialisable, TooLarge
from tests.node.running import LONG, make_app, running


async def test_wrong_arguments_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    app = make_app(tmp_path, max_args=1000)

    @app.task
    async def greet(name: str, times: int = 1, when: datetime | None = None) -> str:
        return name * times

    for wrong in (
        {},
        {"name": 1},
        {"name": "a", "times": "x"},
        {"name": "a", "unknown": 1},
        {"name": "a", "when": "x"},
    ):
        with pytest.raises(InvalidInput):
            await greet.submit(**wrong)
    with pytest.raises(InvalidInput):
        await greet.submit("a", 1, None, "too many")  # type: ignore[call-arg]
    with pytest.raises(NotSerialisable):
        await greet.submit(name=object())  # type: ignore[arg-type]
    with pytest.raises(TooLarge):
        await greet.submit(name="x" * 1001)
    for options in ({"priority": -1}, {"priority": 10}, {"priority": True}, {"delay": "soon"}, {"at": "2027-01-01"},
                    {"timeout": "0s"}, {"queue": ""}, {"queue": "a b"}, {"key": ""}, {"retry": "x"},
                    {"at": "2027-01-01T00:00:00Z", "delay": "1s"}):  # fmt: skip
        with pytest.raises(InvalidInput):
            await greet.submit("a", **options)
    with pytest.raises(NotSerialisable):
        await greet.submit_many([{"name": "good"}, {"name": object()}])
    counts = await (await app._core.client()).store.counts(app._core.who)
    assert counts == {}
    await app.close()


async def test_arguments_become_what_the_signature_says(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task
    async def typed(when: datetime, tags: set[str], **rest: int) -> list[object]:
        return [when.year, sorted(tags), rest]

    async with running(app):
        job = await typed.submit(when=datetime(2027, 1, 1, tzinfo=UTC), tags={"b", "a"}, extra=5)
        assert await job.result(LONG) == [2027, ["a", "b"], {"extra": 5}]


async def test_a_parameter_with_the_name_of_an_option_is_the_functions(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task
    async def store(ctx: rota.Context, key: str) -> str:
        return f"{key} on {ctx.job.queue}"

    async with running(app):
        job = await store.options(key="k1").submit(key="value")
        again = await store.options(key="k1").submit(key="value")
        assert job.id == again.id
        assert await job.result(LONG) == "value on default"


async def test_the_sync_face(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    def ordinary_code() -> tuple[int, str, int]:
        job = add.submit_sync(a=1, b=2)
        many = add.submit_many_sync([{"a": 1, "b": n} for n in range(3)])
        return job.result_sync(LONG), job.info_sync().state, sum(j.result_sync(LONG) for j in many)

    async with running(app):
        assert await asyncio.to_thread(ordinary_code) == (3, "succeeded", 6)
        with pytest.raises(InvalidInput, match="await"):
            add.submit_sync(a=1, b=2)
    assert add(1, 2) == 3
