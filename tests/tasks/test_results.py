"""Results of jobs among the arguments of others: places apart from values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rota.errors import InvalidInput, NotSerialisable
from rota.model.graph import ParentInfo, Path
from rota.model.lifecycle import State
from rota.tasks.encoding import JobReference, job_in
from rota.tasks.results import ResultNotReady, filled, shown, split


def parent(name: str, *fills: Path, state: State | None = State.SUCCEEDED, result: object = None) -> ParentInfo:
    return ParentInfo(name, "t", state, fills=fills, result=result)


def test_jobs_leave_places_of_their_own() -> None:
    given = {
        "a": JobReference("1"),
        "b": [1, JobReference("2"), (JobReference("1"),)],
        "c": {"d": {"e": JobReference("2")}, "f": None},
        "g": "text",
    }
    plain, fills = split(given, "arguments")
    assert plain == {"a": None, "b": [1, None, [None]], "c": {"d": {"e": None}, "f": None}, "g": "text"}
    assert fills == {"1": (("a",), ("b", 2, 0)), "2": (("b", 1), ("c", "d", "e"))}


def test_what_is_filled_in_is_what_was_taken_out() -> None:
    given = {"a": JobReference("1"), "b": [1, JobReference("2")], "c": {"d": JobReference("1")}, "f": None}
    plain, fills = split(given, "arguments")
    parents = [parent("1", *fills["1"], result={"x": [None]}), parent("2", *fills["2"]), parent("3", result=7)]
    found = msgspec.json.decode(filled(msgspec.json.encode(plain).decode(), parents))
    assert found == {"a": {"x": [None]}, "b": [1, None], "c": {"d": {"x": [None]}}, "f": None}


@pytest.mark.parametrize("text", ['{"a":{"$job":"1"}}', '{"a":["a",null]}', '{"a": [[["a"],"1"]]}', '{"a":"\\u0000"}'])
def test_no_value_looks_like_a_place(text: str) -> None:
    assert filled(text, [parent("1", result=7)]) is text


def test_what_holds_itself_is_refused() -> None:
    endless: list[Any] = [JobReference("1")]
    endless.append(endless)
    with pytest.raises(NotSerialisable, match="arguments"):
        split({"a": endless}, "arguments")
    with pytest.raises(NotSerialisable, match=r"a\.1\.5"):
        split({"a": {1.5: JobReference("1")}}, "arguments")
    with pytest.raises(NotSerialisable, match="texts without NUL"):
        split({"a": {"b\0": JobReference("1")}}, "arguments")


def test_a_number_as_a_key_is_a_text_as_in_json() -> None:
    plain, fills = split({"a": {1: JobReference("1"), 2: 5}}, "arguments")
    assert fills == {"1": (("a", "1"),)}
    text = msgspec.json.encode(plain).decode()
    assert filled(text, [parent("1", *fills["1"], result=7)]) == b'{"a":{"1":7,"2":5}}'


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, r"argument: 'rows\[0\]' is not valid; expected the result of job 1; that is gone"),
        (State.FAILED, "that failed when it ran again"),
        (State.CANCELLED, "that cancelled when it ran again"),
    ],
)
def test_a_result_that_is_gone_is_told(state: State | None, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        filled('{"rows":[null]}', [parent("1", ("rows", 0), state=state)])


def test_a_parent_that_runs_again_has_no_result_yet() -> None:
    with pytest.raises(ResultNotReady, match="rows is the result of job 1, which runs again"):
        filled('{"rows":null}', [parent("1", ("rows",), state=State.RUNNING)])


@pytest.mark.parametrize("text", ["{}", '{"a":[]}', '{"a":"text"}', '{"a":null}', "[]", "null"])
def test_arguments_without_the_place_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"a\[0\]\.b"):
        filled(text, [parent("1", ("a", 0, "b"))])


def test_paths_are_shown_as_people_write_them() -> None:
    assert shown(("rows",)) == "rows"
    assert shown(("parts", 0, "x")) == "parts[0].x"


def test_a_job_is_found_wherever_it_is() -> None:
    one = JobReference("1")
    assert job_in({"a": [1, {"b": (one,)}]}) is one
    assert job_in({one: 1}) is one
    assert job_in({"a": [1, {"b": "x"}]}) is None
