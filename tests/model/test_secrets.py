"""Names of secrets, the values under them, the forms in which they are found, and orders as they are shown."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model import secrets
from rota.model.job import Kind, Spec, shown_order
from rota.model.options import Options, read_options
from rota.model.outcome import CUT_MARK
from rota.model.secrets import MOST_VALUES, Mask, declared, forms, leaves, united, values_of
from rota.model.trigger import template

VALUE = 'pass"wörd/1 +\\ä'
texts = st.text(min_size=4, max_size=30).filter(secrets.can_be_masked)


def test_names_are_sorted_and_each_once() -> None:
    assert secrets.names("password") == ("password",)
    assert secrets.names(["b", "a.c", "b"]) == ("a.c", "b")
    for wrong in (7, None, [7], [""], ["x" * 201], ["a\0"], [str(number) for number in range(101)]):
        with pytest.raises(InvalidInput):
            secrets.names(wrong)


def test_those_of_a_task_and_of_an_order_add_up() -> None:
    task = read_options(Options(), {"secrets": ["password"]})
    assert read_options(task, {"secrets": "token"}).secrets == ("password", "token")
    assert read_options(task, {"secrets": None}).secrets == ("password",)
    assert read_options(task, {"secrets": []}).secrets == ("password",)


def test_names_stand_beside_the_work() -> None:
    plain = Spec.function("f")
    named = plain.with_secrets(["b"])
    assert (plain.secrets, named.secrets) == ((), ("b",))
    assert plain.with_secrets(()) is plain
    assert named.digest != plain.digest == Spec.function("f").digest
    assert json.loads(named.body) == {"name": "f", "secrets": ["b"]}
    for broken in ("", "{", '{"secrets": 1}', '["secrets"]', '{"secrets": [1]}', '{"argv": ["\\"secrets\\""]}'):
        assert declared(broken) == ()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["password"], ["hunter2"]),
        (["login"], ["ann", "t0ken", "4711"]),
        (["login.token"], ["t0ken"]),
        (["login.token.x", "nothing", "login.nothing", "list.0"], []),
        (["dotted.name"], ["dots"]),
        (["list"], ["1.5", "deep"]),
    ],
)
def test_values_by_name(names: list[str], found: list[str]) -> None:
    arguments = {
        "password": "hunter2", "login": {"name": "ann", "token": "t0ken", "pin": 4711, "on": True, "none": None},
        "dotted.name": "dots", "list": [[{"x": "deep"}], 1.5],
    }  # fmt: skip
    assert sorted(values_of(arguments, names)) == sorted(found)


@pytest.mark.parametrize("value", ["", "abc", "  abc \n", "true", "NULL", "None", "123", "-12"])
def test_what_can_not_be_masked(value: str) -> None:
    assert Mask([value]).patterns == ()


@given(texts)
def test_a_value_is_found_in_the_forms_that_are_promised(value: str) -> None:
    plain = value.strip()
    mask = Mask([value])
    printed = [plain, json.dumps(plain), json.dumps(plain, ensure_ascii=False), repr(plain), f"x={plain}."]
    raw = plain.encode("utf-8", "surrogatepass")
    printed += [quote(raw), quote(raw, safe=""), quote_plus(raw), urlencode({"a": raw})]
    for one in (base64.b64encode, base64.urlsafe_b64encode):
        printed += [one(raw).decode(), one(raw).decode().rstrip("=")]
    for text in printed:
        assert "***" in mask.text(text), text
        assert plain not in mask.text(text) or plain in "***"


@given(st.binary(max_size=4), st.binary(min_size=9, max_size=20), st.binary(max_size=4))
def test_most_of_a_value_is_found_inside_longer_base64(before: bytes, value: bytes, after: bytes) -> None:
    mask = Mask()
    mask.patterns = tuple(secrets._in_base64(value))
    left = mask.masked(base64.b64encode(before + value + after)).replace(b"***", b"")
    assert len(left) <= len(base64.b64encode(before)) + len(base64.b64encode(after)) + 8


def test_each_line_of_a_text_is_a_secret() -> None:
    mask = Mask(["-----BEGIN KEY-----\nabcdefgh\nxy\n  ijklmnop\n"])
    assert mask.text("got abcdefgh and ijklmnop, xy") == "got *** and ***, xy"


def test_numbers_and_bytes() -> None:
    mask = Mask(leaves({"pin": 4711, "key": b"\xffbytes", "small": 12, "yes": True}))
    told = mask.json('{"a": 4711, "b": [4711.5, "is 4711"], "c": 47110, "12": true}')
    assert told == '{"a":"***","b":[4711.5,"is ***"],"c":47110,"12":true}'
    assert mask.masked(b"x\xffbytes") == b"x***"


json_values = st.recursive(st.none() | st.integers(-999, 999) | texts, lambda some: st.lists(some, max_size=3))


@settings(max_examples=40)
@given(json_values, texts)
def test_a_result_stays_json(value: Any, secret: str) -> None:
    mask = Mask([secret])
    told = json.loads(mask.json(msgspec.json.encode([value, secret, {secret: 1}]).decode()))
    assert told[1] == mask.text(secret)
    assert told[2] == {mask.text(secret): 1}


def test_a_text_that_was_cut_in_the_middle_of_a_secret() -> None:
    mask = Mask(["hunter2hunter2"])
    text = f"begins hunter2h{CUT_MARK}er2hunter2 ends hunter2hunter2"
    assert mask.cut_text(text, CUT_MARK) == f"begins ***{CUT_MARK}*** ends ***"
    assert mask.cut_text("hunt hunter2hunter2", CUT_MARK) == "hunt ***"
    assert mask.cut_text("with hunte…", "…") == "with ***…"


def test_an_attempt_has_so_many_values() -> None:
    mask = Mask(f"value-{number}" for number in range(MOST_VALUES))
    mask.add(["value-1"])
    with pytest.raises(InvalidInput, match="at most 1,000"):
        mask.add(["another one"])
    began = time.process_time()
    mask.masked(b"a line without any of them\n" * 40)
    assert time.process_time() - began < 1


def test_long_values_are_found_in_pieces() -> None:
    value = "".join(chr(ord("a") + number % 26) + str(number) for number in range(5_000))
    assert max(map(len, forms(value))) == 4096
    assert set(Mask([value]).text(f"<{value}>")) == set("<*>")


def test_spans_that_overlap_are_one() -> None:
    assert united([(4, 6), (0, 2), (1, 3), (3, 4)]) == [(0, 3), (3, 4), (4, 6)]


# -- what is shown ----------------------------------------------------------------------------------------------------
def shown(spec: Spec, args: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return shown_order(spec.kind, msgspec.json.decode(spec.body), args)


def test_named_arguments_are_not_shown_nor_their_values_elsewhere() -> None:
    spec = Spec.function("f").with_secrets(["login.token", "pin", "gone"])
    args = {"login": {"token": VALUE, "name": "ann"}, "pin": 12, "url": f"https://x/?t={quote(VALUE)}", "n": 12}
    assert shown(spec, args) == (
        {"name": "f", "secrets": ["login.token", "pin", "gone"]},
        {"login": {"token": "***", "name": "ann"}, "pin": "***", "url": "https://x/?t=***", "n": 12},
    )
    assert args["login"] == {"token": VALUE, "name": "ann"}, "the order itself stays"


def test_of_a_command_and_of_a_call() -> None:
    command = Spec.command(["sh", "-c", f"x {VALUE}"], env={"KEY": VALUE, "pin": "1"}, stdin=VALUE)
    spec, _ = shown(command.with_secrets(["KEY", "pin"]), {})
    assert spec["argv"] == ["sh", "-c", "x ***"]
    assert (spec["env"], spec["stdin"]) == ({"KEY": "***", "pin": "***"}, "***")
    call = Spec.http("POST", "https://a/", {"Accept": "hunter22", "X-Key": "hunter22"}, "hunter22")
    spec, _ = shown(call.with_secrets(["Accept"]), {})
    assert spec["headers"] == {"Accept": "***", "X-Key": "***", "Content-Type": "text/plain; charset=utf-8"}
    assert spec["body"] == "***"


def test_orders_without_secrets_are_shown_as_they_are() -> None:
    args = {"password": VALUE}
    assert shown(Spec.function("f"), args)[1] is args
    assert shown_order(Kind.FUNCTION, {"secrets": "broken"}, args)[1] is args
    assert shown_order(Kind.FUNCTION, {"broken": None}, args)[1] is args


def test_schedules_keep_secrets_and_do_not_show_them() -> None:
    options = read_options(Options(), {"secrets": ["password"]})
    made = template.template_of(Spec.function("f"), "f", '{"password":"hunter2 {fire_time}"}', options)
    job = made.job("1", None, "UTC", 0, 0)
    assert job.spec.secrets == ("password",)
    assert made.shown[1] == {"password": "***"}
    stored = template.to_json(made)
    assert template.from_json(stored) == made
    assert "hunter2" not in template.shown_text(stored)
    assert template.shown_text("{") == "***"
    command = template.template_of(Spec.command(["a", "{fire_time}"]), "c", "{}", options)
    assert command.job("1", None, "UTC", 0, 0).spec.secrets == ("password",)
    call = template.template_of(Spec.http("GET", "https://a/{fire_time}"), "h", "{}", options)
    assert call.job("1", None, "UTC", 0, 0).spec.secrets == ("password",)
