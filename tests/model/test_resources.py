"""Bounds of commands: what people may write, and which of two hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.errors import InvalidInput
from rota.model.job import CommandSpec, Spec
from rota.model.resources import BOUNDS, NO_BOUNDS, Resources, niceness, resources, size, size_text
from rota.model.times import SECOND


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("512MB", 512_000_000),
        ("2GiB", 2 << 30),
        ("2G", 2 << 30),
        ("1.5 kib", 1536),
        ("100", 100),
        (100, 100),
        ("7b", 7),
        ("1TB", 10**12),
    ],
)
def test_sizes(text: object, bytes_: int) -> None:
    assert size(text) == bytes_
    assert size(size_text(bytes_)) == bytes_


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1XB", "1 2MB", "1e3", "nan", True, None, 1.5, [], "9" * 30, "٣MB"])
def test_what_is_no_size(text: object) -> None:
    with pytest.raises(InvalidInput, match="a size such as 512MB or 2GiB"):
        size(text)


def test_all_of_them_from_texts() -> None:
    given = {"cpu": "30s", "memory": "512MB", "files": "100", "processes": 50, "file_size": "1GB", "nice": 3}
    assert resources(given) == Resources(30 * SECOND, 512_000_000, 100, 50, 10**9, 3)
    assert resources({"cpu": None}) is NO_BOUNDS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cpu": "0s"}, "cpu"),
        ({"cpu": "long"}, "cpu"),
        ({"memory": "1KB"}, "at least 4MiB"),
        ({"memory": "9000000TB"}, "at most 1048576TiB"),
        ({"files": 2}, "files"),
        ({"processes": 0}, "processes"),
        ({"processes": True}, "processes"),
        ({"processes": "many"}, "processes"),
        ({"nice": 20}, "0 to 19"),
        ({"nice": -1}, "0 to 19"),
        ({"disk": 5}, "one of cpu, memory, files, processes, file_size, nice"),
        ("512MB", "bounds such as"),
    ],
)
def test_what_is_refused(given: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        resources(given)


def test_the_tighter_bound_holds() -> None:
    node = Resources(cpu=10, memory=100, nice=2)
    order = Resources(cpu=20, memory=50, files=8, nice=1)
    assert node.tightened(order) == order.tightened(node) == Resources(cpu=10, memory=50, files=8, nice=2)
    assert set(BOUNDS) | {"nice"} == set(Resources.__struct_fields__)


def test_urgent_work_is_not_made_nicer_nor_is_usual_work() -> None:
    assert [niceness(priority) for priority in range(10)] == [0, 0, 0, 0, 0, 0, 1, 2, 3, 4]


def test_they_survive_the_way_through_the_store() -> None:
    about: dict[str, Any] = {
        "stdin": "in\0put",
        "resources": {"memory": "1GB"},
        "user": "nobody",
        "inherit": ["B", "A"],
    }
    spec = Spec.command(["x"], **about)
    read = msgspec.json.decode(spec.body, type=CommandSpec)
    assert read == CommandSpec(
        ["x"], stdin="in\0put", resources=Resources(memory=10**9), user="nobody", inherit=["A", "B"]
    )
    again = {name: getattr(read, name) for name in about}
    assert Spec.command(["x"], **again) == spec
    assert Spec.command(["x"]).body == '{"argv":["x"]}'  # as before there were any: keys know their orders by this


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"stdin": 5}, "stdin"),
        ({"stdin": "\ud800"}, "UTF-8"),
        ({"cwd": ""}, "an absolute path"),
        ({"cwd": "reports"}, "an absolute path"),
        ({"cwd": Path("/")}, "texts .of paths and numbers: str"),
        ({"user": ""}, "the name or number of a user"),
        ({"user": -1}, "the name or number of a user"),
        ({"user": "a b"}, "the name or number of a user"),
        ({"group": 2**32 - 1}, "the name or number of a group"),
        ({"inherit": "PATH"}, "a list of names"),
        ({"inherit": ["A=B"]}, "the name of an environment variable"),
        ({"inherit": [5]}, "inherit"),
        ({"resources": {"memory": "x"}}, "a size such as"),
    ],
)
def test_what_no_command_can_have(about: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Spec.command(["x"], **about)
