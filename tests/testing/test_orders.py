"""Tests find the orders that code under test has made, and say what is there instead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rota
from rota import testing
from rota.errors import InvalidInput, UnknownTask

app = rota.App("sqlite:///never-made.db", user="me")


@dataclass
class Address:
    town: str


@app.task
async def welcome(user_id: int, to: Address | None = None, when: datetime | None = None, words: str = "hi") -> None: ...


@app.task
async def forward() -> None:
    await welcome.submit(user_id=9)


async def test_orders_are_listed_as_they_were_given() -> None:
    async with testing.harness(app, now="2027-01-01T00:00:00+00:00") as rota_test:
        later = welcome.options(delay="90s", queue="mail", key="k", labels=["news"], expires="1h", timeout=5)
        first = await later.submit(7)
        await welcome.options(at="2027-06-01T00:00:00+00:00", after=first, priority=1, retry=2).submit(8)
        one, two = rota_test.orders
    assert (one.id, one.task, one.args, one.queue, one.key, one.labels) == (
        first.id, "welcome", {"user_id": 7}, "mail", "k", ("news",),
    )  # fmt: skip
    assert (one.at, one.delay, one.due) == (None, timedelta(seconds=90), datetime(2027, 1, 1, 0, 1, 30, tzinfo=UTC))
    assert (one.expires, one.timeout) == (timedelta(hours=1), timedelta(seconds=5))
    assert (two.at, two.due, two.priority) == (two.due, datetime(2027, 6, 1, tzinfo=UTC), 1)
    assert (two.after, two.retry, two.workflow) == ((first.id,), rota.Retry(2), None)


async def test_orders_are_found_by_task_and_some_arguments() -> None:
    async with testing.harness(app) as rota_test:
        await welcome.submit_many([{"user_id": 1}, {"user_id": 2}])
        moment = datetime(2027, 1, 1, tzinfo=UTC)
        await welcome.submit(3, to=Address("Bonn"), when=moment)
        await forward.submit()
        async with app.workflow("nightly") as flow:
            flow.add(welcome, user_id=4)
        await rota_test.drain()
        assert rota_test.assert_submitted(welcome, user_id=3, to=Address("Bonn"), when=moment).args["user_id"] == 3
        assert rota_test.assert_submitted(welcome).args == {"user_id": 9}, "the latest"
        assert rota_test.assert_submitted("welcome", user_id=4).workflow == flow.id
        assert len(rota_test.submitted(welcome, words="hi")) == 5, "an argument left out has its default"
        rota_test.assert_submitted(welcome, user_id=9)
        rota_test.assert_not_submitted(welcome, user_id=5)


async def test_a_repeated_key_is_one_order() -> None:
    async with testing.harness(app) as rota_test:
        for _ in range(2):
            await welcome.options(key="once").submit(1)
        assert len(rota_test.orders) == 1


async def test_a_missing_order_is_told_with_near_misses() -> None:
    async with testing.harness(app) as rota_test:
        with pytest.raises(AssertionError, match=r"welcome\(user_id=7\) was not submitted; nothing was"):
            rota_test.assert_submitted(welcome, user_id=7)
        await welcome.submit(8)
        await forward.submit()
        with pytest.raises(AssertionError) as missing:
            rota_test.assert_submitted(welcome, user_id=7, words="hi")
        with pytest.raises(AssertionError) as unwanted:
            rota_test.assert_not_submitted(forward)
        for number in range(20):
            await welcome.submit(100 + number)
        with pytest.raises(AssertionError, match=r"  and 16 more\nother orders:\n  forward\(\)$"):
            rota_test.assert_submitted(welcome, user_id=7)
    assert str(missing.value).splitlines() == [
        "welcome(user_id=7, words='hi') was not submitted",
        "near misses:",
        "  welcome(user_id=8): user_id is 8, not 7",
        "other orders:",
        "  forward()",
    ]
    assert str(unwanted.value).splitlines() == ["forward() was submitted", "orders:", "  forward()"]


async def test_commands_and_calls() -> None:
    async with testing.harness(app) as rota_test:
        await app.submit_command(["convert", "a.png", "b.jpg"], env={"X": "1"})
        await app.submit_http("POST", "https://example.com/hook?token=secret", json={"a": 1})
        order = rota_test.assert_submitted(["convert", "a.png"])
        assert order.command is not None
        assert order.command.env == {"X": "1"}
        rota_test.assert_not_submitted(["convert", "b.jpg"])
        rota_test.assert_submitted(app.http("POST", "https://example.com/hook?token=secret"))
        call = app.http("POST", "https://example.com/hook?token=secret", json={"a": 2})
        with pytest.raises(AssertionError, match=r"""its body is b'{"a":1}', not b'{"a":2}'""") as missing:
            rota_test.assert_submitted(call)
        rota_test.assert_not_submitted(app.http("GET", "https://example.com/hook"))
    assert "secret" not in str(missing.value)


@pytest.mark.parametrize(
    ("work", "args", "message"),
    [
        (welcome, {"user": 7}, "'user' is unknown"),
        ("wellcome", {}, "unknown task 'wellcome'"),
        (7, {}, "order: 7 is not valid; expected a task"),
        ([], {}, "command"),
        (["echo"], {"a": 1}, "arguments: {'a': 1}"),
        (welcome, {"user_id": object()}, "JSON"),
    ],
)
async def test_a_wrong_question_is_refused(work: Any, args: dict[str, Any], message: str) -> None:
    async with testing.harness(app) as rota_test:
        for ask in (rota_test.submitted, rota_test.assert_submitted, rota_test.assert_not_submitted):
            with pytest.raises((InvalidInput, UnknownTask), match=message):
                ask(work, **args)
