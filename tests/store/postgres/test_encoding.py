"""What PostgreSQL is told in other words: patterns, ids, texts with NUL characters or none at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import apsw
import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model import outcome
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.outcome import Problem
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.store.postgres.encoding import clean, glob, id_range, ids_only, is_id
from rota.store.values import JobFilter, Position
from tests.contracts.world import World
from tests.servers.postgres import shared_server

NUL = "a\0b"
Both = tuple[apsw.Connection, psycopg.Connection[tuple[Any, ...]]]

# -- patterns ---------------------------------------------------------------------------------------------------------

TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "a.b",
    "A",
    "-",
    "]",
    "[",
    "^",
    "\\",
    "a\nb",
    "é",
    "𝄞",
    "a]",
    "[a]",
    "x*y",
    "(",
    "a-c",
    "z",
]
PATTERNS = [
    "", "*", "?", "??", "a*", "*b", "a*c", "*.*", "[ab]", "[a-c]", "[^a-c]", "[^a]", "[]]", "[]a]", "[^]]",
    "[^]a]", "[a-]",
    "[-a]", "[a-c-e]", "[]-a]", "[^]-a]", "[z-a]", "[a", "[", "[]", "[^]", "[^", "a[", "\\", "\\a", "[\\]", "[\\]]",
    "[[]", "[[:alpha:]]",
    "[[.a.]]", "[a\\-c]", "a.b", "(a|b)", "^a", "a$", "{2}", "a+", "***=a", "(?i)A", "é", "[à-ü]", "[--a]",
    "[+--]", "[a--]",
    "[^^]", "[!a]", "*[", "*[]", "a\nb", "[\n]", "**", "?*?", "#", " ", "&", "~", "[a-a]", "[a-b-c]", "[a-b-]",
]  # fmt: skip


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with shared_server().connect() as server:
        yield apsw.Connection(":memory:"), server


def same(both: Both, pattern: str, texts: list[str]) -> None:
    sqlite, server = both
    expected = [bool(sqlite.execute("SELECT ? GLOB ?", (text, pattern)).get) for text in texts]
    found = server.execute(
        "SELECT text ~ %s FROM unnest(%s::text[]) WITH ORDINALITY AS t(text, n) ORDER BY n", (glob(pattern), texts)
    ).fetchall()
    assert [match for (match,) in found] == expected, (pattern, glob(pattern), texts)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_the_same_as_in_sqlite(both: Both, pattern: str) -> None:
    same(both, pattern, TEXTS)


# Few characters, so that patterns and texts have something in common; and all that mean something to either side.
alphabet = st.sampled_from([*"ab-z*?[]^\\.$(){}|+!:=,0\n ", "é", "𝄞"])


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet, max_size=8), st.lists(st.text(alphabet, max_size=5), min_size=1, max_size=8))
@example("[a-]", ["a", "-", "]"])
@example("[]-a]", ["]", "-", "a", "^"])
@example("[z-a]", ["z", "a", "-"])
def test_any_pattern_means_the_same_as_in_sqlite(both: Both, pattern: str, texts: list[str]) -> None:
    same(both, pattern, texts)


async def test_jobs_are_found_by_patterns(world: World) -> None:
    names = ["mail.send", "mail.read", "report", "mail[1]", "a\nb"]
    jobs = dict(zip(names, await world.submit(*(world.job(task=name) for name in names)), strict=True))
    for pattern, expected in {
        "mail.*": ["mail.read", "mail.send"], "*[nt]*": ["mail.send", "report"], "mail[[]1]": ["mail[1]"],
        "[z-a]": [], "[": [], "a?b": ["a\nb"], "MAIL*": [],
    }.items():  # fmt: skip
        found = {info.id for info in await world.store.find(LOCAL, JobFilter(task=pattern))}
        assert found == {jobs[name] for name in expected}, pattern


# -- ids --------------------------------------------------------------------------------------------------------------

ids = st.uuids().map(str)


@given(ids, st.integers(0, 36))
def test_the_range_of_a_beginning_holds_what_begins_so(one: str, length: int) -> None:
    bounds = id_range(one[:length])
    assert bounds is not None
    assert is_id(bounds[0])
    assert is_id(bounds[1])
    assert bounds[0] <= one <= bounds[1]
    assert all(bound.startswith(one[:length]) for bound in bounds)


@given(ids, ids, st.integers(1, 36))
def test_the_range_of_a_beginning_holds_nothing_else(one: str, other: str, length: int) -> None:
    bounds = id_range(one[:length])
    assert bounds is not None
    assert (bounds[0] <= other <= bounds[1]) == other.startswith(one[:length])


@pytest.mark.parametrize("part", ["x", "0123456789", "A", "0" * 37, "é", "\0", "-", "00000000x", " 0", "0\n"])
def test_what_no_id_begins_with_has_no_range(part: str) -> None:
    assert id_range(part) is None


def test_what_is_no_id_is_left_out() -> None:
    one = "0195ab00-0000-7000-8000-000000000001"
    assert ids_only([one, "x", "", one.upper(), one + "\n", NUL, one, "\udcff"]) == [one]


async def test_ids_are_found_by_their_beginnings_and_ends(world: World) -> None:
    job = await world.one()
    for part in (job, job[:9], job[:14], job[-6:], job[-13:]):
        assert await world.store.resolve(LOCAL, part) == [job], part
    for part in (job.upper(), "x", "%", "_", "é" * 40, "'"):
        assert await world.store.resolve(LOCAL, part) == [], part


# -- texts ------------------------------------------------------------------------------------------------------------


def test_only_nul_is_replaced() -> None:
    assert clean(NUL) == "a\ufffdb"
    assert clean("naïve 𝄞 \x01") == "naïve 𝄞 \x01"
    assert clean(None) is None
    assert clean("") == ""


async def test_a_reason_with_a_nul_is_kept_without_it_or_refused(world: World) -> None:
    actor = await world.node()
    waiting, running = await world.several(2)
    claimed = await actor.take(waiting)
    for job in (waiting, running):
        with suppress(InvalidInput):
            await world.store.cancel(LOCAL, [job], NUL)
    assert await actor.finish(claimed, outcome.Cancelled(NUL)) is Verdict.APPLIED
    info = await world.info(waiting)
    assert info.state is State.CANCELLED
    assert info.reason is not None
    assert "\0" not in info.reason


@pytest.mark.parametrize(
    "result",
    [
        outcome.Failed(Problem(NUL, NUL, NUL), (NUL,), fatal=True),
        outcome.Failed(Problem(NUL, NUL, NUL), (NUL,)),
        outcome.SetAside(Problem(NUL, NUL)),
        outcome.Snoozed(5, NUL),
        outcome.Interrupted(NUL),
        outcome.Succeeded(json.dumps(NUL)),
    ],
    ids=lambda result: type(result).__name__,
)
async def test_an_attempt_ends_whatever_it_said(world: World, result: outcome.Outcome) -> None:
    """A task may raise any text; its end must be kept in any case."""
    actor = await world.node()
    job = await world.one()
    claimed = await actor.take()
    assert await actor.finish(claimed, result) is Verdict.APPLIED
    info = await world.info(job)
    assert "\0" not in (info.reason or "")
    if isinstance(result, outcome.Failed | outcome.SetAside):
        assert info.error == result.problem
    if isinstance(result, outcome.Succeeded):
        assert info.result == NUL
    await world.store.events(SYSTEM, 0, 100)


@pytest.mark.parametrize(
    "changes", [{"task": NUL}, {"queue": NUL}, {"key": NUL}, {"task": NUL, "key": "k"}, {"args": f'"{NUL}"'}], ids=str
)
async def test_an_order_with_a_nul_is_refused(world: World, changes: dict[str, str]) -> None:
    async with world.unchanged():
        with pytest.raises(InvalidInput):
            await world.submit(world.job(), world.job(**changes))
        with pytest.raises(InvalidInput):
            await world.submit(*(world.job() for _ in range(60)), world.job(**changes))
        with pytest.raises(InvalidInput):
            await world.submit(world.job(), who=Principal(NUL))
    await world.one()  # and the connection is as good as before


@pytest.mark.parametrize("many", [1, 60], ids=["insert", "copy"])
async def test_arguments_may_hold_an_escaped_nul(world: World, many: int) -> None:
    args = '{"a":"\\u0000"}'
    for key in (None, "k"):
        job, *_ = await world.submit(*(world.job(args=args, key=key and f"{key}{n}") for n in range(many)))
        assert (await world.info(job)).args == {"a": "\0"}


@pytest.mark.parametrize("half", ["\ud800", "\udcff", "a\udfff"])  # noqa: PT014 - they are not the same
async def test_half_characters_are_refused_and_the_connection_goes_on(world: World, half: str) -> None:
    job = await world.one()
    async with world.unchanged():
        for changes in ({"task": half}, {"task": half, "key": "k"}, {"key": half}):
            with pytest.raises(InvalidInput):
                await world.submit(world.job(**changes))
            with pytest.raises(InvalidInput):
                await world.submit(*(world.job() for _ in range(60)), world.job(**changes))
        with pytest.raises(InvalidInput):
            await world.store.cancel(LOCAL, [job], half)
    await world.one()


async def test_a_megabyte_goes_in_and_comes_out(world: World) -> None:
    args = json.dumps({"a": "é" * 500_000})
    jobs = [await world.one(args=args), *await world.several(60, args=args[:1000] + '"}', key=None)]
    keyed = await world.one(args=args, key="k")
    actor = await world.node()
    claimed = {one.job_id: one for one in await actor.claim()}
    assert claimed[jobs[0]].args == claimed[keyed].args == args
    assert await actor.finish(claimed[jobs[0]], outcome.Succeeded(args)) is Verdict.APPLIED
    info = await world.info(jobs[0])
    assert info.args == info.result == json.loads(args)
    assert await actor.say(claimed[keyed].ref, 0, bytes(range(256)) * 4096) is Verdict.APPLIED
    (chunk,) = await world.store.output(LOCAL, keyed, Position(), 10)
    assert chunk.body == bytes(range(256)) * 4096
