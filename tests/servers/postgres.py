"""A real PostgreSQL for tests, benchmarks and chaos: of its own, on a loopback port, gone when we are gone.

    server = Server.create(folder)
    server.start()
    with database(server) as url:
        ...
    server.stop()

`shared_server()` is one for the whole process, started when it is first asked for.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, LiteralString

import psycopg
from psycopg import sql

from tests.servers import programs, watcher
from tests.servers.memory import discard, memory_of
from tests.servers.ports import free_port

Mode = Literal["smart", "fast", "immediate"]
Setting = str | int | float | bool
Statement = LiteralString | sql.SQL | sql.Composed

SIGNALS: dict[Mode, signal.Signals] = {
    "smart": signal.SIGTERM,  # waits for the clients to leave
    "fast": signal.SIGINT,  # ends their transactions
    "immediate": signal.SIGQUIT,  # leaves everything as it is, for the next start to recover
}
STARTING = 60.0  # seconds, with recovery, on a busy machine
STOPPING = 60.0
MEMORY = Path("/dev/shm")  # every table and index is a file or more; making them here takes a fifth of the time

BASIC: dict[str, Setting] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": 100,
    "logging_collector": False,
}
# What a crash of the machine would need. The kernel keeps what was written if only the server crashes, so even without
# these a killed server loses nothing but the last commits (synchronous_commit).
HASTY: dict[str, Setting] = {"fsync": False, "synchronous_commit": False, "full_page_writes": False}
DURABLE: dict[str, Setting] = {"fsync": True, "synchronous_commit": True, "full_page_writes": True}


class Server:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder.resolve(), port
        self.log_file = self.folder.with_name(folder.name + ".log")
        self.remove: Path | None = None  # what goes as well if this process is killed
        self._watcher: subprocess.Popen[str] | None = None
        self._pid: int | None = None

    @classmethod
    def create(cls, folder: Path, *, durable: bool = False, **settings: Setting) -> Server:
        """A new server in a folder that does not exist yet. It is not started."""
        folder.mkdir(mode=0o700)
        programs.hand_over(folder)
        programs.run(
            "initdb", "-D", folder, "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"
        )
        server = cls(folder, free_port())
        server._configure({**BASIC, **(DURABLE if durable else HASTY), **settings})
        return server

    @classmethod
    def standby(cls, folder: Path, primary: Server, *, synchronous: bool = True, **settings: Setting) -> Server:
        """A copy of a running server that follows it, started. If synchronous, the primary's commits wait for it from
        now on: while no such standby is connected they wait for ever."""
        folder.mkdir(mode=0o700)
        programs.hand_over(folder)
        programs.run(
            "pg_basebackup", "-D", folder, "-d", primary.url(), "-R", "-X", "stream", "-c", "fast", "--no-sync"
        )
        server = cls(folder, free_port())
        server._configure({"cluster_name": folder.name, **settings})
        with (folder / "postgresql.auto.conf").open("a") as file:
            # Copied from the primary, if it has another one. Promoted, ours would wait for standbys that it has not.
            file.write("synchronous_standby_names = ''\n")
        server.start()
        wait_for(
            lambda: primary.value("SELECT count(*) FROM pg_stat_replication WHERE application_name = %s", folder.name)
        )
        if synchronous:
            primary.execute("ALTER SYSTEM SET synchronous_commit = on")
            primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.execute("SELECT pg_reload_conf()")
            wait_for(lambda: primary.value("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"))
        return server

    def _configure(self, settings: dict[str, Setting]) -> None:
        lines = [f"{name} = {quoted(value)}\n" for name, value in {**settings, "port": self.port}.items()]
        with (self.folder / "postgresql.conf").open("a") as file:  # the last line on a setting is the one that counts
            file.writelines(lines)
        programs.hand_over(self.folder)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """Of the process that all others of this server come from."""
        if self._pid is None or not self.running:
            raise RuntimeError("the server is not running")
        return self._pid

    @property
    def running(self) -> bool:
        return self._watcher is not None and self._watcher.poll() is None

    def start(self) -> None:
        """Start, and wait until it answers."""
        if self.running:
            raise RuntimeError("the server is running already")
        self._let_go()
        postgres = programs.command("postgres", "-D", self.folder)
        with self.log_file.open("ab") as log:
            self._watcher = subprocess.Popen(
                [sys.executable, "-ISB", watcher.__file__, str(os.getpid()), str(self.remove or ""), *postgres],
                env=programs.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for us, and we stop it then
            )
        assert self._watcher.stdout
        self._pid = int(self._watcher.stdout.readline() or 0) or None
        try:
            self.wait_ready()
        except BaseException:
            self.stop("immediate")
            raise

    def wait_ready(self) -> None:
        def answers() -> bool:
            if not self.running:
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log()[-2000:]}")
            try:
                return bool(self.value("SHOW data_directory") == str(self.folder))  # not another one on our port
            except psycopg.OperationalError:
                return False

        wait_for(answers, STARTING)

    def stop(self, mode: Mode = "fast") -> None:
        """Does nothing if it is stopped already."""
        if self.running:
            pid = self.pid
            self.resume()  # or it would not hear
            self._signal(pid, SIGNALS[mode])
        self._let_go()

    def kill(self) -> None:
        """All of it at once, as if the machine had lost power (but what the kernel has been given is kept)."""
        pids = self._stopped() if self.running else []
        memory = memory_of(pids)
        for pid in pids:
            self._signal(pid, signal.SIGKILL)
        self._let_go()
        discard(memory)

    def restart(self, mode: Mode = "fast") -> None:
        self.stop(mode)
        self.start()

    def pause(self) -> None:
        """It keeps its connections and the port, and does nothing: neither answers nor hangs up."""
        self._stopped()

    def resume(self) -> None:
        first = self.pid
        for pid in (*watcher.children_of(first), first):
            self._signal(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Makes a standby a server of its own, and waits until it takes writes."""
        if not self.value("SELECT pg_promote(true, 60)"):
            raise RuntimeError(f"the standby was not promoted:\n{self.log()[-2000:]}")

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url(database), autocommit=True, sslmode="disable", connect_timeout=5)

    def execute(self, statement: Statement, *values: object, database: str = "postgres") -> None:
        with self.connect(database) as connection:
            connection.execute(statement, values or None)

    def value(self, query: Statement, *values: object, database: str = "postgres") -> Any:
        """The first value of the first row."""
        with self.connect(database) as connection:
            row = connection.execute(query, values or None).fetchone()
        return row[0] if row else None

    def _stopped(self) -> list[int]:
        """All processes, stopped: at first the one that starts the others."""
        first = self.pid
        self._signal(first, signal.SIGSTOP)
        children = watcher.children_of(first)
        for pid in children:
            self._signal(pid, signal.SIGSTOP)
        return [*children, first]

    def _signal(self, pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(pid, number)

    def _let_go(self) -> None:
        """Waits for the end of a server that was told to end, or has ended."""
        if self._watcher:
            self._watcher.wait(STOPPING)
            assert self._watcher.stdout
            self._watcher.stdout.close()
        self._watcher = self._pid = None


@functools.cache
def _shared_server(process: int) -> Server:
    home = Path(tempfile.mkdtemp(prefix="rota-postgres-", dir=MEMORY if roomy(MEMORY) else None))
    server = Server.create(home / "data", max_wal_size="256MB")
    server.remove = home
    atexit.register(end_shared, server, home, process)
    server.start()
    return server


def shared_server() -> Server:
    """The one of this process: of each worker of pytest-xdist, of a script."""
    return _shared_server(os.getpid())


def roomy(place: Path) -> bool:
    return os.access(place, os.W_OK) and shutil.disk_usage(place).free > 2 * 1024**3


def end_shared(server: Server, home: Path, process: int) -> None:
    if os.getpid() == process:  # not in a fork
        server.stop("immediate")
        shutil.rmtree(home, ignore_errors=True)


names = itertools.count(1)


def unique_name(kind: str) -> str:
    return f"{kind}_{os.getpid()}_{next(names)}"


def fresh_schema_name() -> str:
    """For a schema in a database that several tests share."""
    return unique_name("schema")


def create_database(server: Server, template: str = "template0") -> str:
    """A new database, empty or like the template (to which nobody may be connected); returns its url."""
    name = unique_name("test")
    # Half the time of the usual strategy where fsync is off: its checkpoints cost next to nothing then.
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    server.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
    return server.url(name)


def drop_database(server: Server, url: str) -> None:
    """Whoever is still connected is thrown out."""
    server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(url.rpartition("/")[2])))


@contextmanager
def database(server: Server, template: str = "template0") -> Iterator[str]:
    """A database for the length of the block; gives its url."""
    url = create_database(server, template)
    try:
        yield url
    finally:
        drop_database(server, url)


def quoted(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "'" + str(value).replace("'", "''") + "'"


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} seconds")
        time.sleep(0.01)
