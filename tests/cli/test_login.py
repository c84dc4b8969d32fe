"""`rota login` and `rota logout`: checked first, kept safely, used by every verb of a client."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota import opening
from rota.cli.main import main
from rota.model.access import Role
from tests.cli.program import Rota
from tests.remote.serving import Server, key_of, server_on


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_on(tmp_path_factory.mktemp("server") / "rota.db") as server:
        yield server


def logged_in(rota: Rota, server: Server, key: str, *words: str) -> tuple[int, str, str]:
    done = rota("login", server.url, "--key-stdin", *words, stdin=f"{key}\n", env=home(rota.folder))
    return done.returncode, done.stdout, done.stderr


def home(folder: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(folder / "config")}


@pytest.mark.slow
def test_every_verb_of_a_client_uses_it_until_the_logout(rota: Rota, server: Server) -> None:
    code, said, _ = logged_in(rota, server, key_of(Role.ADMIN, "ann"))
    assert code == 0
    assert f"logged in to {server.url} as ann" in said
    assert key_of(Role.ADMIN, "ann") not in said
    made = rota("submit", "--json", "--", "true", env=home(rota.folder))
    assert made.returncode == 0, made.stderr
    assert "true" in rota("job", "list", env=home(rota.folder)).stdout
    assert not (rota.folder / "rota.db").exists()
    out = rota("logout", env=home(rota.folder))
    assert (out.returncode, out.stdout.strip()) == (0, f"logged out from {server.url}; the key itself stays valid")
    assert "no store at rota.db" in rota("job", "list", env=home(rota.folder)).stderr


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("key", "why"),
    [
        (key_of(Role.ADMIN, "nobody"), "refuses the key: the key is wrong, has expired or was revoked"),
        ("rota_nonsense", "key: '(hidden)' is not valid"),
        ("", "expected an access key"),
    ],
)
def test_a_key_that_does_not_work_is_not_kept(rota: Rota, server: Server, key: str, why: str) -> None:
    code, _, complaint = logged_in(rota, server, key)
    assert code in (1, 2)
    assert why in complaint
    assert not key or key not in complaint
    assert not (rota.folder / "config").exists()


def test_an_address_that_is_none(rota: Rota) -> None:
    done = rota("login", "example", "--key-stdin", stdin=key_of(Role.ADMIN))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "server: 'example' is not valid; expected an address such as https://" in done.stderr


@pytest.mark.slow
def test_a_server_that_is_away(rota: Rota, tmp_path: Path) -> None:
    with server_on(tmp_path / "other.db") as server:
        pass
    code, _, complaint = logged_in(rota, server, key_of(Role.ADMIN))
    assert code == 1
    assert f"the server at {server.url} does not answer (connection refused)" in complaint


def refuse_loopback(monkeypatch: pytest.MonkeyPatch, folder: Path, stdin: str) -> None:
    """As if the server were on another machine."""
    monkeypatch.setattr(opening, "is_loopback", lambda host: False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    opening._warn_readable.cache_clear()


def test_a_key_does_not_travel_readable_by_an_oversight(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse_loopback(monkeypatch, tmp_path, key_of(Role.ADMIN, "ann"))
    assert main(["login", server.url, "--key-stdin"]) == 2
    complaint = capsys.readouterr().err
    assert "expected an address with https: others on the way could read the key; --insecure" in complaint
    assert complaint.count("\n") == 1
    assert sys.stdin.read(), "the key was not even read"
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize(("said", "code"), [("y\n", 0), ("\n", 2), ("no\n", 2)])
def test_a_person_is_asked_first(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int
) -> None:
    refuse_loopback(monkeypatch, tmp_path, said)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("rota.cli.login.getpass", lambda prompt: key_of(Role.ADMIN, "ann"))
    assert main(["login", server.url]) == code
    assert (tmp_path / "config").exists() == (code == 0)


def test_one_who_insists_is_warned_at_the_login_alone(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse_loopback(monkeypatch, tmp_path, key_of(Role.ADMIN, "ann"))
    assert main(["login", server.url, "--key-stdin", "--insecure"]) == 0
    opening._warn_readable.cache_clear()  # as in another process
    assert main(["job", "list"]) == 0
    monkeypatch.setenv("ROTA_SERVER", server.url)
    assert main(["job", "list"]) == 0
    assert [record.getMessage() for record in caplog.records if record.name == "rota.server"] == [
        f"rota: {server.url} is without TLS: others on the way can read the access key; use https"
    ]
