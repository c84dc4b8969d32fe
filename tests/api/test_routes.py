"""The table: what is refused when it is made, and how its paths are found."""

from __future__ import annotations

from typing import Any

import pytest

from rota.api.answers import Answer, Stream
from rota.api.app import table
from rota.api.requests import Request
from rota.api.routes import PUBLIC, Route, Routes, Table
from rota.model.access import Permission


def route(method: str, path: str, name: str = "") -> Route:
    async def handler(request: Request[Any, Any]) -> None: ...

    handler.__name__ = name or f"{method}_{path}"
    return Route(method=method, path=path, permission=PUBLIC, handler=handler, summary="", tag="test")


def test_the_types_of_a_route_are_those_of_its_handler() -> None:
    routes = Routes("test")

    @routes.post("/a/{id}/{name}", Permission.ORDER, "", status=201)
    async def full(request: Request[int, None]) -> Answer[str]: ...  # type: ignore[empty-body]

    @routes.get("/b", PUBLIC, "")
    async def streams(request: Request[None, bytes]) -> Stream: ...  # type: ignore[empty-body]

    @routes.delete("/c", PUBLIC, "")
    async def silent(request: Request[None, None]) -> None: ...

    one, two, three = routes
    assert (one.body, one.query, one.answer, one.status, one.parts) == (int, None, str, 201, ("id", "name"))
    assert (two.query, two.answer, two.media, two.status) == (bytes, None, "text/event-stream", 200)
    assert (three.answer, three.status, three.media) == (None, 204, None)


def test_a_handler_without_types_is_refused() -> None:
    async def handler(request: Any) -> None: ...

    with pytest.raises(TypeError, match="annotate it"):
        Routes("test").get("/a", PUBLIC, "")(handler)


@pytest.mark.parametrize(
    "routes",
    [
        [route("GET", "/a", "one"), route("GET", "/a", "two")],
        [route("GET", "/{x}", "one"), route("GET", "/{y}", "two")],
        [route("GET", "/a", "one"), route("GET", "/b", "one")],
        [route("GET", "/a/")],
        [route("GET", "/A")],
        [route("GET", "a")],
        [route("BREW", "/a")],
        [route("GET", "/a{x}")],
    ],
)
def test_a_table_has_one_route_for_each_path_and_method(routes: list[Route]) -> None:
    with pytest.raises(ValueError, match=r"route|neither"):
        Table([routes])


def test_words_win_over_parts() -> None:
    made = Table([[route("GET", "/jobs/{id}", "one"), route("GET", "/jobs/counts", "two")]])
    found = made.find("/jobs/counts")
    assert found is not None
    assert (found[0]["GET"].name, found[1]) == ("two", [])
    found = made.find("/jobs/count%20s")
    assert found is not None
    assert (found[0]["GET"].name, found[1]) == ("one", ["count s"])


def test_rotas_own_table_can_be_made() -> None:
    assert {one.path for one in table() if one.permission is PUBLIC} >= {"/health/live", "/health/ready"}
