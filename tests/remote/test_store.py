"""A store whose verbs are calls to a server: lost answers, wrong keys, other versions, loops and forks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import msgspec
import pytest

from rota import errors
from rota.clock import Chance, SystemClock
from rota.errors import InvalidInput, NotAllowed, StoreDenied, StoreError, StoreUnavailable, WrongVersion
from rota.model.access import Role
from rota.model.http import target
from rota.model.job import Submitted
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import quotas
from rota.remote import store as store_module
from rota.remote.connection import Reply
from rota.remote.hello import TIME
from rota.remote.store import ServerStore, server_store
from rota.remote.versions import HEADER, OURS
from rota.remote.worker_link import VERBS
from rota.store.base import Store
from rota.store.people import AuditFilter
from rota.store.values import Cancelling
from rota.store.verbs import NODE, verbs
from tests.contracts.world import World
from tests.remote.in_process import AsgiPool, api_on, connected
from tests.remote.servers import answer, scripted

HELLO = msgspec.json.encode(
    {"version": OURS, "store": "sqlite", "now": 5, "user": "ann", "key": "k1", "role": "admin", "permissions": ["read"]}
)
VERSION = f"{HEADER}: {OURS}\r\n"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PAUSES", (0.0, 0.0, 0.0))


@pytest.fixture
async def remote(world: World) -> AsyncIterator[tuple[ServerStore, AsgiPool]]:
    store, pool = connected(api_on(world.store, world.clock), world.clock)
    await store.open()
    yield store, pool
    await store.close()


def to(port: int, key: str = "rota_0123456789abcdef") -> ServerStore:
    return server_store(target(f"http://127.0.0.1:{port}"), key, SystemClock(), Chance())


# -- what it says about itself ---------------------------------------------------------------------------------------
async def test_it_acts_for_the_user_of_the_key(world: World) -> None:
    store, _ = connected(api_on(world.store, world.clock), world.clock, "ann", Role.SUBMITTER)
    await store.open()
    assert store.principal is not None
    assert store.principal.user == "ann"
    await store.submit(Principal("somebody else"), [[world.job()]])
    assert await world.store.counts(Principal("ann")) == {"ready": 1}


async def test_its_time_is_that_of_the_server(world: World, remote: tuple[ServerStore, AsgiPool]) -> None:
    store, _ = remote
    assert abs(store.now() - world.store.now()) <= store.doubt() + 1


async def test_the_server_decides_what_a_key_may_do(world: World) -> None:
    store, _ = connected(api_on(world.store, world.clock), world.clock, "ann", Role.VIEWER)
    await store.open()
    assert store.principal is not None
    with pytest.raises(NotAllowed, match="order or change jobs"):
        await store.submit(store.principal, [[world.job()]])
    with pytest.raises(NotAllowed, match="everyone's jobs"):
        await store.pause_queue(store.principal, "default", "")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name, verb in verbs(Store).items() if verb.by is NODE and name not in VERBS])
async def test_verbs_of_control_nodes_need_the_store(remote: tuple[ServerStore, AsgiPool], name: str) -> None:
    with pytest.raises(StoreError, match="needs the store itself; http://localhost:8787 is a server"):
        await getattr(remote[0], name)(SYSTEM, {"some": 1})


async def test_migrations_need_the_store(remote: tuple[ServerStore, AsgiPool]) -> None:
    with pytest.raises(StoreError, match="migrating needs the store itself"):
        await remote[0].migrate()


# -- lost answers ----------------------------------------------------------------------------------------------------
async def test_a_read_is_tried_again(world: World, remote: tuple[ServerStore, AsgiPool]) -> None:
    store, pool = remote
    await world.one()
    pool.lose = 3
    assert await store.counts(LOCAL) == {"ready": 1}


async def test_an_order_whose_answer_got_lost_is_accepted_once(
    world: World, remote: tuple[ServerStore, AsgiPool]
) -> None:
    store, pool = remote
    known = world.job(key="known")
    await world.store.submit(LOCAL, [[known]])
    plain, keyed, again = world.job(), world.job(key="new"), world.job(key="known")
    other = world.job(key="known", args='{"other": 1}')
    pool.lose = 2
    answers = await store.submit(LOCAL, [[plain], [keyed, again], [other]])
    assert [[(one.id, one.created) for one in some] for some in answers[:2]] == [  # type: ignore[union-attr]
        [(plain.id, True)],
        [(keyed.id, True), (known.id, False)],
    ]
    assert isinstance(answers[2], errors.KeyConflict)
    assert await store.counts(LOCAL) == {"ready": 3}


async def test_an_order_whose_answer_got_lost_may_have_used_up_the_quota(
    world: World, remote: tuple[ServerStore, AsgiPool]
) -> None:
    store, pool = remote
    await world.store.put_user(LOCAL, LOCAL.user, quotas("submissions=2/1h,waiting=2"), new=True)
    first, keyed, more = world.job(), world.job(key="k"), world.job()
    pool.lose = 2
    answers = await store.submit(LOCAL, [[first], [keyed], [more]])
    assert answers[:2] == [[Submitted(first.id, True)], [Submitted(keyed.id, True)]], "as it was, not refused"
    assert isinstance(answers[2], errors.QuotaExceeded)
    assert await store.counts(LOCAL) == {"ready": 2}
    (answer,) = await store.submit(LOCAL, [[more]])
    assert isinstance(answer, errors.QuotaExceeded)


async def test_a_write_whose_answer_got_lost_is_answered_as_the_first_time(
    world: World, remote: tuple[ServerStore, AsgiPool]
) -> None:
    store, pool = remote
    job = await world.one()
    pool.lose = 2
    assert await store.cancel(LOCAL, [job], "no") == [Cancelling.CANCELLED]
    assert await store.cancel(LOCAL, [job], "no") == [Cancelling.ENDED], "another call is another one"
    pool.lose = 1
    assert await store.replay(LOCAL, [job]) == [True]


async def test_a_repeat_may_reach_another_server(world: World, remote: tuple[ServerStore, AsgiPool]) -> None:
    store, pool = remote
    job, first = await world.one(), pool.api
    other = api_on(world.store, world.clock)
    ask = pool.ask

    async def through_the_other(request: bytes, limit: float) -> Reply:
        pool.api = first if pool.asked % 2 else other
        return await ask(request, limit)

    pool.ask = through_the_other  # type: ignore[method-assign]
    pool.lose = 3
    assert await store.cancel(LOCAL, [job], "no") == [Cancelling.CANCELLED]
    pool.lose = 3
    assert await store.replay(LOCAL, [job]) == [True]
    deeds = [row.deed for row in await world.store.audit(SYSTEM, AuditFilter())]
    assert deeds == ["replay", "cancel"], "a repeat has no audit row"


async def test_a_repeat_that_comes_too_soon_is_sent_again() -> None:
    early = msgspec.json.encode({"code": "repeat_in_flight", "detail": str(errors.RepeatInFlight())})
    replies = iter([None, answer(early, "409 Conflict"), answer(b"[true]", headers=VERSION)])
    async with scripted(lambda _: next(replies)) as server:
        store = to(server.port)
        assert await store.hurry(LOCAL, ["x"]) == [True]
        keys = {line for request in server.requests for line in request.split(b"\r\n") if b"Idempotency-Key" in line}
        assert (len(server.requests), len(keys)) == (3, 1)
        await store.close()
    async with scripted(lambda _: answer(early, "409 Conflict")) as server:
        with pytest.raises(errors.RepeatInFlight):
            await to(server.port).hurry(LOCAL, ["x"])


async def test_an_id_that_exists_is_refused_unless_it_is_a_repeat(
    world: World, remote: tuple[ServerStore, AsgiPool]
) -> None:
    store, pool = remote
    job = world.job()
    await store.submit(LOCAL, [[job]])
    with pytest.raises(InvalidInput, match="ids that are in use"):
        await store.submit(LOCAL, [[job]])
    await world.store.submit(Principal("eve"), [[theirs := world.job()]])
    pool.lose = 1
    with pytest.raises(InvalidInput, match="ids that are in use"):
        await store.submit(LOCAL, [[theirs]])


async def test_one_clear_line_when_the_server_is_away() -> None:
    async with scripted(lambda _: None) as server:
        port = server.port
    with pytest.raises(StoreUnavailable) as away:
        await to(port).open()
    expected = (
        f"the server at http://127.0.0.1:{port} does not answer (connection refused); is `rota up` running there?"
    )
    assert str(away.value) == expected


async def test_a_server_that_comes_back_is_found() -> None:
    replies = iter([None, answer(b"bad gateway", "502 Bad Gateway"), answer(HELLO, headers=VERSION)])
    async with scripted(lambda _: next(replies)) as server:
        store = to(server.port)
        await store.open()
        assert store.info is not None
        await store.close()


async def test_silence_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "ANSWER", 0.05)
    async with scripted(lambda _: b"") as server:
        with pytest.raises(StoreUnavailable, match=r"no answer within 0\.05s"):
            await to(server.port).open()
        assert len(server.requests) == 1


# -- refusals --------------------------------------------------------------------------------------------------------
async def test_a_wrong_key_is_named_without_being_shown() -> None:
    problem = b'{"code": "wrong_key", "detail": "the key is wrong, has expired or was revoked"}'
    async with scripted(lambda _: answer(problem, "401 Unauthorized")) as server:
        with pytest.raises(StoreDenied, match="refuses the key: the key is wrong") as denied:
            await to(server.port, "rota_verysecretverysecret").open()
    assert "verysecret" not in str(denied.value)


async def test_a_server_of_another_version_is_refused_with_both_versions_named() -> None:
    async with scripted(lambda _: answer(HELLO, headers=f"{HEADER}: 7.5.0\r\n")) as server:
        with pytest.raises(WrongVersion, match=rf"this is rota {OURS}, the server at .* is rota 7\.5\.0"):
            await to(server.port).open()


async def test_a_client_of_another_version_is_refused_with_both_versions_named(
    world: World, remote: tuple[ServerStore, AsgiPool]
) -> None:
    store, _ = remote
    store._head = store._head.replace(f"{HEADER}: {OURS}", f"{HEADER}: 7.5.0")
    with pytest.raises(WrongVersion, match=f"is rota {OURS}"):
        await store.counts(LOCAL)


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"{}", b"[]", b""])
async def test_something_else_that_answers_is_no_server_of_rotas(body: bytes) -> None:
    async with scripted(lambda _: answer(body)) as server:
        with pytest.raises(StoreError, match="is no server of rota's"):
            await to(server.port).open()
        with pytest.raises(StoreError, match="is no server of rota's"):
            await to(server.port).counts(LOCAL)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        ("503 Service Unavailable", b'{"code": "store_unavailable", "detail": "away"}', StoreUnavailable),
        ("503 Service Unavailable", b'{"code": "store_full", "detail": "full"}', errors.StoreFull),
        ("504 Gateway Timeout", b"<html>", StoreUnavailable),
        ("500 Internal Server Error", b'{"code": "internal_error", "detail": "see a1"}', StoreError),
        ("400 Bad Request", b'{"code": "from_the_future", "detail": "wrong", "what": "x"}', InvalidInput),
        ("404 Not Found", b"<html>", StoreError),
        ("403 Forbidden", b'{"code": "not_allowed", "detail": "no", "user": "ann"}', NotAllowed),
    ],
)
async def test_a_problem_becomes_the_error_that_it_was(status: str, body: bytes, kind: type[Exception]) -> None:
    async with scripted(lambda _: answer(body, status)) as server:
        with pytest.raises(kind) as error:
            await to(server.port).counts(LOCAL)
    assert type(error.value) is kind


# -- closing, loops, forks -------------------------------------------------------------------------------------------
async def test_a_closed_one_says_so(remote: tuple[ServerStore, AsgiPool]) -> None:
    store, _ = remote
    await store.close()
    with pytest.raises(StoreUnavailable, match="was closed"):
        await store.counts(LOCAL)


def test_several_loops_one_after_the_other_and_a_forked_child() -> None:
    """Each `asyncio.run` is a loop. The child has connections of its own, and its parent goes on with its own."""
    store: list[ServerStore] = []

    async def serve_and_call() -> None:
        async with scripted(lambda _: answer(b'{"ready": 1}', headers=f"{VERSION}{TIME}: 5\r\n")) as server:
            if not store:
                store.append(to(server.port))
            store[0].dialer.target = target(f"http://127.0.0.1:{server.port}")
            assert await store[0].counts(LOCAL) == {"ready": 1}
            assert await store[0].counts(LOCAL) == {"ready": 1}

    async def fork_and_call() -> None:
        async with scripted(lambda _: answer(b'{"ready": 1}', headers=VERSION)) as server:
            store[0].dialer.target = target(f"http://127.0.0.1:{server.port}")
            assert await store[0].counts(LOCAL) == {"ready": 1}
            child = os.fork()
            if child == 0:  # its copy of the socket is closed, and nothing was sent on it
                os._exit(0 if not store[0]._loops._pools else 1)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            assert await store[0].counts(LOCAL) == {"ready": 1}
            assert server.connections == 1

    asyncio.run(serve_and_call())
    asyncio.run(serve_and_call())
    asyncio.run(fork_and_call())
