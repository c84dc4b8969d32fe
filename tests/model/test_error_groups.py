"""Groups of errors: what varies in a message, the place in a trace, and which failures are the same."""

from __future__ import annotations

import time
from typing import NoReturn
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.error_groups import LONGEST_MESSAGE, group_id, group_of, normal, place, title
from rota.model.outcome import Problem
from rota.work.functions.ending import problem_of


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no user 17", "no user <n>"),
        ("-3.5e7 is too much, 1,000 is not", "<n> is too much, <n> is not"),
        ("no such key: 'ann'", "no such key: <text>"),
        ('column "a b" of `t`', "column <text> of <text>"),
        ("can't open the user's file", "can't open the user's file"),
        ("job 0190a1b2-1234-7000-8000-0123456789ab is gone", "job <uuid> is gone"),
        ("<Thing object at 0x7f2a9c>", "<Thing object at <hex>>"),
        ("digest deadbeef12 of deadbeef", "digest <hex> of deadbeef"),
        ("/tmp/tmpabcd/x.txt is missing", "<path> is missing"),
        ("/srv/run7/part-000.csv is missing", "/srv/run<n>/part-<n>.csv is missing"),
        ("since 2026-01-01T10:00:00.5Z", "since <time>"),
        ("since 2026-01-01 10:00:00+02:00", "since <time>"),
        ("at 07:30:00", "at <time>"),
        ("timed out after 3.5 seconds", "timed out after <duration>"),
        ("took 250ms of 1 min", "took <duration> of <duration>"),
        ("10.0.0.7:5432 refused", "<address> refused"),
        ("fe80::1 refused", "<address> refused"),
        ("ann@example.org is unknown", "<address> is unknown"),
        ("rows (12, 13, 14) and (7)", "rows (<n>) and (<n>)"),
        # Numbers that tell failures apart.
        ("exit code 3", "exit code 3"),
        ("status 503 from GET https://h:8080/users/17?token=abc", "status 503 from GET https://h:<n>/users/<n>"),
        ("https://ann:secret@h/x is gone", "https://h/x is gone"),
        ("[Errno 111] Connect call failed ('127.0.0.1', 5432)", "[Errno 111] Connect call failed (<text>, <n>)"),
        ("exit code 12345", "exit code <n>"),
        # Only the first line that is not empty.
        ("\n  one \t two\nkey 7", "one two"),
        ("", ""),
        ("\ud800 x 1", "\ud800 x <n>"),
    ],
)
def test_what_varies_becomes_a_placeholder(message: str, shown: str) -> None:
    assert normal(message) == shown


@given(st.text())
def test_no_number_is_left(text: str) -> None:
    shown = normal(text)
    assert not any(char.isdecimal() for char in shown)
    assert shown == " ".join(shown.split())


@given(st.integers(min_value=0), st.integers(min_value=0), st.sampled_from(["row {}", "id={}", "x{}y", "({})"]))
def test_numbers_never_split_a_group(one: int, other: int, text: str) -> None:
    a, b = (Problem("E", text.format(number)) for number in (one, other))
    assert group_of("t", a) == group_of("t", b)


@given(st.uuids(), st.ip_addresses(), st.datetimes())
def test_values_never_split_a_group(one: UUID, other: object, third: object) -> None:
    for value in (one, other, third):
        assert normal(f"x {value} y").split()[-1] == "y"
        assert "<" in normal(f"x {value} y")


HOSTILE = [
    "'", '"', "`", "a", "1.", ":", "0:", "-", "a@", "a.b@a.a.", "/", "/tmp/", "ab1", "1", "a://", "1 ", "`'\"", "::",
    "exit code ", "<n> ", "\n", " ", "\u0660", "2026-01-01T", "1e",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_message_takes_long(piece: str) -> None:
    began = time.process_time()
    shown = normal(piece * 50_000)
    place(piece * 50_000)
    assert time.process_time() - began < 0.1
    assert len(shown) <= LONGEST_MESSAGE * 3


def user_code() -> NoReturn:
    raise ValueError("no user 17")


def caught(message: str) -> Problem:
    try:
        try:
            user_code()
        except ValueError as error:
            raise KeyError(message) from error
    except KeyError as error:
        return problem_of(error)


def test_the_place_is_the_innermost_frame_of_the_error_itself() -> None:
    with pytest.raises(ValueError, match="17") as plain:
        user_code()
    assert place(problem_of(plain.value).trace) == "test_error_groups.py: user_code"
    assert place(caught("x").trace) == "test_error_groups.py: caught"


TRACE = """Traceback (most recent call last):
  File "/srv/app/mail.py", line {line}, in send
    deliver('  File "fake.py", line 1, in fake')
  File "/venv/lib/python3.12/site-packages/smtp/client.py", line 88, in connect
    raise OSError
OSError: no route
"""


@pytest.mark.parametrize(
    ("trace", "where"),
    [
        (TRACE.format(line=7), "mail.py: send"),
        (None, ""),
        ("something else", ""),
        ('Traceback (most recent call last):\n  File "<frozen x>", line 1, in run\nE', "<frozen x>: run"),
        (
            '  + Exception Group Traceback (most recent call last):\n  |   File "C:\\a\\b.py", line 1, in f\n',
            "b.py: f",
        ),
    ],
)
def test_a_place(trace: str | None, where: str) -> None:
    assert place(trace) == where


def test_line_numbers_are_no_part_of_a_group() -> None:
    one, other = (Problem("OSError", "no route", TRACE.format(line=line)) for line in (7, 8))
    assert group_of("mail", one) == group_of("mail", other)


def test_each_part_tells_groups_apart() -> None:
    whole = Problem("OSError", "no route", TRACE.format(line=7))
    others = [
        group_of("other", whole),
        group_of("mail", Problem("KeyError", "no route", whole.trace)),
        group_of("mail", Problem("OSError", "no way", whole.trace)),
        group_of("mail", Problem("OSError", "no route", TRACE.format(line=7).replace("in send", "in fetch"))),
        group_of("mail", Problem("OSError", "no route")),
    ]
    ids = {group_of("mail", whole), *others}
    assert len(ids) == 6
    assert all(len(one) == 12 and set(one) <= set("0123456789abcdef") for one in ids)


def test_a_title_is_one_line() -> None:
    assert title(Problem("builtins.ValueError", "no user 17", TRACE.format(line=1))) == (
        "ValueError: no user <n> (mail.py: send)"
    )
    assert title(Problem("rota.ExitCode", "exit code 3")) == "rota.ExitCode: exit code 3"
    assert title(Problem("shop.Gone", "")) == "shop.Gone"


@pytest.mark.parametrize("text", ["", "zz", "0123456789a", "0123456789AB", "0123456789abc", 7, None])
def test_a_mistyped_id_is_refused(text: object) -> None:
    assert group_id("0123456789ab") == "0123456789ab"
    with pytest.raises(InvalidInput, match="12 hexadecimal digits"):
        group_id(text)
