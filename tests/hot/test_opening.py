"""Servers that can't be reached or used: what is refused, and in which words."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from rota.hot.lane import HotAway, HotRefused
from rota.hot.redis import RedisLane
from tests.hot.fake import Answers, answering, fake, info, tls_front
from tests.hot.lanes import PATIENT, SERVERS, STORE, due, empty, opened
from tests.servers.ports import bound_socket, free_port
from tests.servers.valkey import Valkey, valkey

SECRET = "s3cret%2Fpass"


async def refused(url: str, words: str, kind: type[Exception] = HotRefused) -> None:
    lane = RedisLane(url, PATIENT)
    with pytest.raises(kind, match=words) as raised:
        await lane.open(STORE)
    message = str(raised.value)
    assert message.startswith(f"{lane.place}: ")
    assert "\n" not in message
    assert not [secret for secret in ("s3cret", SECRET) if secret in message]
    with pytest.raises(HotAway, match="it is not open"):
        await lane.look(0, 1)


# -- nobody there ----------------------------------------------------------------------------------------------------
async def test_nobody_listens() -> None:
    with bound_socket() as bound:
        await refused(f"redis://127.0.0.1:{bound.getsockname()[1]}", "connection refused", HotAway)


async def test_a_name_without_an_address() -> None:
    await refused("redis://no-such-host.invalid", "its address can't be found", HotAway)


async def test_one_that_never_answers() -> None:
    async with fake(lambda _: None) as port:
        lane = RedisLane(f"redis://127.0.0.1:{port}", 0.1)
        with pytest.raises(HotAway, match=r"no answer within 0\.1s"):
            await lane.open(STORE)


async def test_one_that_hangs_up() -> None:
    async with fake(lambda _: b"") as port:
        await refused(f"redis://127.0.0.1:{port}", "it closed the connection", HotAway)


# -- passwords -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module", params=SERVERS)
def guarded(request: pytest.FixtureRequest) -> Iterator[Valkey]:
    with valkey(request.param, requirepass="s3cret/pass") as server:
        server.calls(
            ("AUTH", "s3cret/pass"),
            ("ACL", "SETUSER", "rota", "on", ">s3cret/pass", "~rota:*", "&rota:*", "+@all"),
            ("ACL", "SETUSER", "reader", "on", ">s3cret/pass", "~rota:*", "+info", "+get"),
            ("ACL", "SETUSER", "narrow", "on", ">s3cret/pass", "~other:*", "+@all"),
            ("ACL", "SETUSER", "blind", "on", ">s3cret/pass", "~*", "+get"),
        )
        yield server


@pytest.mark.parametrize("login", [f":{SECRET}@", f"default:{SECRET}@", f"rota:{SECRET}@"])
async def test_the_right_password(guarded: Valkey, login: str) -> None:
    async with opened(RedisLane(guarded.url(login), PATIENT)) as (lane,):
        await lane.add_due(due(("a", 1)))
        await lane.subscribe(lambda _: None, lambda: None)
        await lane.publish("x")
        await lane.begin_epoch("one")
        await lane.state()


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ("", r"it needs a password: redis://user:password@host"),
        (":s3cret@", "the user name or the password is wrong"),
        (f"nobody:{SECRET}@", "the user name or the password is wrong"),
        (f"blind:{SECRET}@", "the user may not do that there"),
        (f"reader:{SECRET}@", r"the user may not do that there; it needs all commands on keys rota:\*"),
        (f"narrow:{SECRET}@", "the user may not do that there"),
    ],
)
async def test_wrong_logins(guarded: Valkey, login: str, words: str) -> None:
    await refused(guarded.url(login), words)


async def test_a_password_for_one_that_has_none(server: Valkey) -> None:
    await refused(server.url(f":{SECRET}@"), "it has no password; leave the password out of the address")


async def test_an_answer_that_repeats_the_password() -> None:
    async with fake(
        answering(AUTH=b"-ERR unknown command 'AUTH', with args beginning with: 's3cret/pass'\r\n")
    ) as port:
        await refused(f"redis://:{SECRET}@127.0.0.1:{port}", "it does not know how to log in")


# -- the wrong kind of server ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (answering(INFO=info(redis_version="6.2.14")), "it is Redis 6.2.14; Redis 7.0 or newer, or Valkey, is needed"),
        (answering(INFO=info(redis_version="2.8.0")), "it is Redis 2.8.0"),
        (answering(INFO=info(redis_version="x")), "it is Redis x"),
        (answering(INFO=info(redis_version=None)), "neither Redis nor Valkey"),
        (answering(INFO=b"+OK\r\n"), "neither Redis nor Valkey"),
        (answering(INFO=b"-ERR unknown command 'INFO'\r\n"), "it refused with ERR unknown command"),
        (answering(INFO=info(role="slave", master_host="db", master_port="7")), r"name its primary \(db:7\)"),
        (answering(INFO=info(cluster_enabled="1")), "it is part of a cluster; single servers are needed"),
        (answering(INFO=info(redis_mode="sentinel")), "it is a sentinel"),
        (answering(SET=b"-READONLY You can't write against a read only replica.\r\n"), "it is a read-only replica"),
        (answering(SET=b"-MISCONF Redis is configured to save RDB ...\r\n"), "it can't save its data to disk"),
        (answering(SET=b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"), "its memory is full"),
        (answering(SET=b"-NOREPLICAS Not enough good replicas to write.\r\n"), "too few replicas"),
        (answering(SET=b"-ERR strange\x1b[0m\r\n"), r"it refused with ERR strange\?"),
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "neither Redis nor Valkey"),
    ],
)  # fmt: skip
async def test_servers_that_can_not_be_used(answers: Answers, words: str) -> None:
    async with fake(answers) as port:
        await refused(f"redis://127.0.0.1:{port}", words)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (answering(INFO=info(loading="1")), "it is loading its data"),
        (answering(INFO=b"-LOADING Redis is loading the dataset in memory\r\n"), "it is loading its data"),
        (answering(SET=b"-BUSY Redis is busy running a script.\r\n"), "it is busy with a long script"),
        (answering(GET=b"-MASTERDOWN Link with MASTER is down\r\n"), "has lost its primary"),
    ],
)
async def test_servers_that_will_be_usable_again(answers: Answers, words: str) -> None:
    async with fake(answers) as port:
        await refused(f"redis://127.0.0.1:{port}", words, HotAway)


async def test_a_replica_is_refused(server: Valkey) -> None:
    with valkey(replicaof=f"127.0.0.1 {server.port}") as replica:
        await refused(replica.url(), rf"it is a replica; name its primary \(127\.0\.0\.1:{server.port}\)")


async def test_a_cluster_is_refused() -> None:
    with valkey(cluster_enabled="yes", cluster_port=free_port()) as server:
        await refused(server.url(), "it is part of a cluster")


async def test_a_database_that_is_not_there(server: Valkey) -> None:
    await refused(server.url(database=9_999), "it has no database 9999")


# -- the server of another store -------------------------------------------------------------------------------------
async def test_the_server_of_another_store_is_refused(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT), store="first"):
        await refused(server.url(), r"it serves another store \(first\): .*free it with: redis-cli -n 0 DEL rota:owner")
        async with opened(RedisLane(server.url(database=1), PATIENT)):
            pass  # databases are apart
    await refused(server.url(), "it serves another store")
    server.call("DEL", "rota:owner")
    async with opened(RedisLane(server.url(), PATIENT)):
        assert server.call("GET", "rota:owner") == STORE.encode()


async def test_an_owner_that_is_no_text(server: Valkey) -> None:
    server.call("SET", "rota:owner", b"\xff\r\n\x1b[0m" * 1_000)
    await refused(server.url(), r"it serves another store \(\?+0m")
    server.calls(("DEL", "rota:owner"), ("RPUSH", "rota:owner", "x"))
    await refused(server.url(), "holds something else")


@pytest.mark.parametrize("store", ["", "a b", "{a}", "x" * 41, "é", "a\n"])
async def test_ids_that_no_store_has(store: str) -> None:
    with pytest.raises(ValueError, match="can't be the id of a store"):
        await RedisLane("redis://127.0.0.1:1").open(store)


# -- TLS -------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca(authority: trustme.CA, tmp_path: Path) -> Path:
    file = tmp_path / "some ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return file


@pytest.fixture(scope="module")
def context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


async def test_with_the_right_name_and_authority(ca: Path, context: ssl.SSLContext) -> None:
    async with tls_front(empty("valkey").port, context) as port:
        url = f"rediss://localhost:{port}?ca={str(ca).replace(' ', '%20')}"
        async with opened(RedisLane(url, PATIENT)) as (lane,):
            await lane.add_due(due(("a", 1)))
            await lane.subscribe(lambda _: None, lambda: None)
            assert len(list(lane.descriptors())) == 2
            assert (await lane.state()).entries == 1


async def test_with_a_wrong_name_or_an_unknown_authority(ca: Path, context: ssl.SSLContext) -> None:
    async with tls_front(empty("valkey").port, context) as port:
        await refused(f"rediss://127.0.0.1:{port}?ca={ca}", "certificate is not to be trusted: IP address mismatch")
        await refused(f"rediss://localhost:{port}", "certificate is not to be trusted")


async def test_tls_on_one_side_only(ca: Path, context: ssl.SSLContext, server: Valkey) -> None:
    async with fake(lambda _: b"-ERR\r\n", greeting=b"-ERR what is that\r\n") as port:
        await refused(f"rediss://127.0.0.1:{port}", "it does not speak TLS there")
    async with tls_front(server.port, context) as port:
        with pytest.raises((HotAway, HotRefused)):
            await RedisLane(f"redis://127.0.0.1:{port}", PATIENT).open(STORE)


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_an_authority_that_can_not_be_read(tmp_path: Path, content: str | None) -> None:
    ca = tmp_path / "ca.pem"
    if content is not None:
        ca.write_text(content)
    await refused(f"rediss://localhost?ca={ca}", r"ca\.pem can't be read .*; a file with certificates in PEM form")
