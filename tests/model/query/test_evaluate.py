"""The meaning of queries: what fits one job and one line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.outcome import Problem
from rota.model.query.evaluate import (
    _VALUES,
    fits,
    job_values,
    left_for_lines,
    line_holds,
    needed_of_job,
    of_line,
    texts_of,
)  # fmt: skip
from rota.model.query.fields import FIELDS, JOB_FIELDS, Searched, Type
from rota.model.query.normal import fields_in, leaves, normal
from rota.model.query.parse import parse
from rota.model.query.tree import EVERYTHING, NOTHING, Condition, How, Term
from rota.model.times import as_instant
from tests.model.query.conditions import conditions
from tests.model.query.samples import JOB_ID, LINE, NOW, found, job, printed

FOUND = """
*
state:failed
state:FAILED
state:ended
state:failed,running
-state:live
state!=running
kind:function
task:mail.*
task:mail.send
task=mail.send
task:*send
task:????.send
task~SEND
task!~xyz
user:ann owner:ann
label:nightly
label:eu/*
label:nightly label:eu/west
-label:weekly
key:"order 1"
key:order\\ 1
key:order\\ *
key:*
workflow:01942f0c-1111-7000-8000-000000000000
workflow:imp*
name:load
schedule:nightly
node:host-1
id:01942f0c
id:abcd
id:01942F0C-0000-7000-8000-00000000ABCD
priority:5
priority:3..5
priority>=5 priority<=5 priority>4 priority<6
priority:..5 priority:5..
tries:2 failures:2 crashes:0 exit:2
took:6m
took>5m
took:5m..7m
waited:30s
finished>-2h
finished:today
finished:2027-01-02
finished>=2027-01-02
finished<=2027-01-02
finished>2027-01-01
finished:yesterday..today
finished<now
created:2027-01-02T11:00
created=2027-01-02T11:00:00.000000Z
created:2027-01-02T12:00+01:00
-expires:*
error~"TIMEOUT after"
error_type:*.TimeoutError
reason:*
args.user_id:7
args.user_id=7
args.user_id<7.5
args.user_id:7.0
args.user_id:*
args.name:Ann*
args.name~bee
args.name="Ann Bee"
args.day>2026-12-31
args.day:2027-01-01
args.items.0.n:2.5
args.items.0.n:2..3
args.items.0:*
args.on:true
-args.no:*
args.no=null
-args.items.1:*
-args.name.x:*
-args.user_id="7"
meta.trace:ff
-result:*
nightly
NIGHTLY
night*
"mail.send"
mail.send
timeout
"timeout after 5 s"
/smtp-\\d$/
/SMTP-1/i
state:running OR user:ann
-(state:running OR user:bob)
NOT NOT user:ann
user:ann state:running OR task:mail.*
(user:ann AND task:mail.*)
"""
NOT_FOUND = """
-*
state:live
-state:failed
task:mail
task=mail.*
task:Mail.*
task:"mail.*"
user:bob
label:night
-label:nightly
key:order
workflow:01942f0c
id:0000
id:01942f0c-0000-7000-8000-00000000abce
priority:6..
tries:3
took<5m
finished<-2h
finished:yesterday
finished>2027-01-02
finished<2027-01-02
expires>2000-01-01
expires<now
error="connection timeout after 5 s: smtp-1"
args.user_id:8
args.user_id="7"
args.user_id:7*
args.user_id~7
args.user_id>"6"
args.day>2026
args.on:1
args.on="true"
args.on>0
args.no:*
args.missing:*
args.items.2:*
args.items.-1:*
args.items.00.n:2.5
args.items:2.5
args.items~n
args.name.0:A
result:null result:*
night
tim
timeou
"imeout after"
"timeout aft"
/^timeout/
/smtp-1/ /TIMEOUT/
user:ann (state:running OR task:x)
state:failed state:succeeded
"""


@pytest.mark.parametrize("query", FOUND.strip().splitlines())
def test_what_fits_the_job(query: str) -> None:
    assert found(query)
    assert not found(f"-({query})")


@pytest.mark.parametrize("query", NOT_FOUND.strip().splitlines())
def test_what_does_not_fit_the_job(query: str) -> None:
    assert not found(query)
    assert found(f"NOT ({query})")


def test_a_result_without_a_path() -> None:
    assert found("result:7 result>6 result=7", result=7)
    assert found("result.rows:3", result={"rows": 3})
    assert found("-result=7 -result.x:* result:*", result=[7])


def test_spans_of_different_attempts_are_missing() -> None:
    waits_again = {"state": State.SCHEDULED, "run_at": NOW, "finished_at": None}
    assert found("-waited:* -took:* started:*", **waits_again)


def test_a_job_that_has_nothing() -> None:
    bare: dict[str, Any] = {
        "attempts": [],
        "error": None,
        "reason": None,
        "key": None,
        "node": None,
        "name": "",
        "finished_at": None,
    }
    assert found("-exit:* -error:* -error_type:* -reason:* -key:* -node:* -name:* -finished:* tries:0 -group:*", **bare)


def test_whole_numbers_are_exact_and_larger_ones_are_doubles() -> None:
    assert found("args.n:1234567890123456789 -args.n:1234567890123456788", args={"n": 1234567890123456789})
    assert found("args.n=1e30 args.n>9223372036854775807", args={"n": 10**30})
    assert found("args.n>1e308", args={"n": 10**400})
    assert found("args.n=0.1", args={"n": 0.1})


def test_case_is_that_of_ascii_alone() -> None:
    assert found('error~"ÉT timeOUT" -error~"ét timeout"', error=Problem("x", "ÉT TIMEOUT"))


LINES_FOUND = """
connection
"connection refused"
refus*
smtp_1
"(smtp_1)"
/refused \\(smtp_\\d\\)$/
level:error
level>=warning
level>info
level:warning..critical
level!=info
stream:log
attempt:2
at>2027-01-02T11:00
connection task:mail.* state:failed
level:debug OR user:ann
""".strip().splitlines()
LINES_NOT_FOUND = """
smtp
"smtp"
nection
timeout
level:warning
level<error
stream:stdout,stderr
attempt:1
at:2027-01-01
connection task:other
-connection
""".strip().splitlines()


@pytest.mark.parametrize("query", LINES_FOUND)
def test_what_fits_the_line(query: str) -> None:
    assert printed(query)
    assert not printed(f"-({query})")


@pytest.mark.parametrize("query", LINES_NOT_FOUND)
def test_what_does_not_fit_the_line(query: str) -> None:
    assert not printed(query)
    assert printed(f"-({query})")


def test_a_line_without_a_level_and_one_with_a_strange_one() -> None:
    plain = msgspec.structs.replace(LINE, level=None)
    assert printed("-level:* -level>=debug level!=error", plain)
    assert printed("level:* -level>=debug -level<=critical", msgspec.structs.replace(LINE, level="notice"))


@given(conditions(Searched.OUTPUT))
@settings(max_examples=50)
def test_a_search_of_output_is_decided_in_two_parts(condition: Condition) -> None:
    """What is needed of the job and left for the line never loses a line, and never finds another."""
    whole = fits(condition, job(), "import", LINE)
    left = left_for_lines(condition, job(), "import")
    assert line_holds(left, LINE) == whole
    assert all(of_line(leaf) for leaf in leaves(left))
    needed = needed_of_job(condition)
    assert not any(of_line(leaf) for leaf in leaves(needed))
    assert fits(needed, job(), "import") or not whole
    assert left != NOTHING or not whole


def test_the_part_about_jobs_is_as_sharp_as_it_can_be() -> None:
    def part(query: str) -> Condition:
        return needed_of_job(parse(query, 0, Searched.OUTPUT))

    assert part("refused task:mail.* level:error") == part("task:mail.*")
    assert part("refused OR task:mail.*") == EVERYTHING
    assert part("-(refused OR task:mail.*)") == part("-task:mail.*")
    assert part("-(refused task:mail.*)") == EVERYTHING


@given(conditions())
@settings(max_examples=50)
def test_a_normal_condition_means_the_same(condition: Condition) -> None:
    assert fits(normal(condition), job(), "import") == fits(condition, job(), "import")
    assert normal(normal(condition)) == normal(condition)


def test_every_field_of_jobs_has_a_value() -> None:
    others = {field.name for field in JOB_FIELDS if field.type is Type.JSON} | {"label", "workflow"}
    assert set(_VALUES) | others == {field.name for field in JOB_FIELDS}
    full = job(expires_at=NOW, result=[1])
    for field in JOB_FIELDS:
        if field.name != "group":
            path = {"args": ("user_id",), "meta": ("trace",)}.get(field.name, ())
            values: list[Any] = job_values(Term(field.name, How.IS, None, path), full, "import")
            assert values, field.name
            assert len(values) == 1 or FIELDS[field.name].many


def test_texts_of_a_job() -> None:
    info: JobInfo = job()
    assert info.id == JOB_ID
    assert set(texts_of(info)) == {
        "mail.send", "nightly", "eu/west", "Connection timeout after 5 s: smtp-1", "builtins.TimeoutError",
    }  # fmt: skip


def test_the_fields_that_a_condition_reads() -> None:
    assert fields_in(parse("state:failed -(args.x:1 OR owner:ann) word", as_instant(NOW))) == {"state", "args", "user"}
