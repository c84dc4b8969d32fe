"""What is refused to be drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rota.errors import InvalidInput
from rota.model.drawing import (
    Vertex,
    graphviz,
    mermaid,
    tree,
)
from rota.model.graph import Need
from rota.model.lifecycle import State

A = Vertex("a", "a", State.READY)
LOOP: list[object] = []
LOOP.append(LOOP)


@pytest.mark.parametrize("given", [None, True, 7, 10**30, b"x", ["x"], LOOP])
@pytest.mark.parametrize("field", ["id", "label", "state", "parents", "note"])
def test_a_vertex_refuses_what_it_cant_be(field: str, given: object) -> None:
    fields: dict[str, Any] = {"id": "a", "label": "a", "state": State.READY, field: given}
    with pytest.raises(InvalidInput, match=f"{field} of a vertex"):
        Vertex(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        {"state": "ready"},
        {"state": "gone"},
        {"parents": (("a", "success"),)},
        {"parents": (("a",),)},
        {"parents": (["a", Need.SUCCESS],)},
        {"parents": [("a", Need.SUCCESS)]},
        {"parents": ((None, Need.SUCCESS),)},
        {"parents": ("a",)},
    ],
)
def test_a_vertex_refuses_what_is_nearly_right(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="of a vertex"):
        Vertex(**{"id": "a", "label": "a", "state": State.READY, **fields})


@pytest.mark.parametrize("limit", [None, True, 0, -1, -(10**30), 1.5, float("nan"), "10", [10]])
def test_a_limit_is_a_whole_number(limit: Any) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        tree([A], limit)


@pytest.mark.parametrize("vertices", [None, 7, "abc", A, {"a": A}, [None], ["a"], [A, 7], iter([A]), LOOP])
@pytest.mark.parametrize("draw", [tree, mermaid, lambda vertices: graphviz(vertices, "x")])
def test_only_lists_of_vertices_are_drawn(draw: Callable[[Any], object], vertices: Any) -> None:
    with pytest.raises(InvalidInput, match="vert"):
        draw(vertices)


def test_an_id_may_be_there_once() -> None:
    with pytest.raises(InvalidInput, match="each id once"):
        tree([A, A])


@pytest.mark.parametrize("name", [None, True, 7, b"x", ["x"]])
def test_the_name_of_a_workflow_is_a_text(name: Any) -> None:
    with pytest.raises(InvalidInput, match="name of a workflow"):
        graphviz([A], name)
