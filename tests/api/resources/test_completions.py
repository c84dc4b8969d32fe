"""Completion of queries over HTTP. What it shows of others, which is nothing, is in `test_searches.py`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.caller import Caller
from tests.api.resources.test_searches import arrange, ask
from tests.contracts.world import World


async def test_a_query_is_completed_while_it_is_typed(world: World, caller: Caller) -> None:
    await arrange(world)

    async def completed(text: str, **more: Any) -> tuple[int, int, list[str]]:
        found = (await ask(caller, "search/complete", text=text, **more)).json
        return found["start"], found["end"], [one["text"] for one in found["candidates"]]

    assert await completed("state:failed ta") == (13, 15, ["task:"])
    assert await completed("sta state:fa", at=3) == (0, 3, ["state:", "started>"])
    assert await completed("task:") == (5, 5, ["mail.send", "report"])
    assert await completed("task:m", **{"in": "output"}) == (5, 6, ["mail.send"])
    assert await completed("label:sl") == (6, 8, ["slow"])
    assert await completed("lev") == (0, 3, [])
    assert await completed("lev", **{"in": "output"}) == (0, 3, ["level:"])
    assert await completed(f"task:{'x' * 2_000}") == (5, 2_005, []), "no query may have such a value"
    assert await completed("task:\0") == (5, 6, [])
    meanings = (await ask(caller, "search/complete", text="took")).json["candidates"]
    assert meanings == [{"text": "took>", "meaning": "from `started` to `finished`"}]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ({}, "text"),
        ({"text": "a", "at": -1}, "at"),
        ({"text": "a", "at": 2}, "at"),
        ({"text": "a", "in": "lines"}, "in"),
        ({"text": "a" * 10_001}, "text"),
    ],
)
async def test_wrong_parameters_are_named(caller: Caller, query: dict[str, Any], what: str) -> None:
    reply = await ask(caller, "search/complete", **query)
    assert (reply.status, reply.json["what"]) == (400, what), reply
