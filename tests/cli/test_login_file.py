"""The file of a login: nobody else may read it, and it is used only where nothing else names a place."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rota.cli import login_file
from rota.cli.login_file import Login
from rota.errors import InvalidInput
from rota.model.access import Role
from tests.remote.serving import key_of

LOGIN = Login("https://rota.example.com", key_of(Role.ADMIN), "/etc/ca.pem")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ROTA_SERVER", "ROTA_STORE", "ROTA_KEY", "ROTA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_kept_for_its_user_alone(home: Path) -> None:
    assert login_file.load() is None
    place = login_file.save(LOGIN)
    assert place == home / "config" / "rota" / "login.json"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert list(place.parent.iterdir()) == [place]
    assert login_file.load() == LOGIN
    login_file.save(Login("http://localhost:1", LOGIN.key))
    assert login_file.load() == Login("http://localhost:1", LOGIN.key)
    assert login_file.forget() == Login("http://localhost:1", LOGIN.key)
    assert login_file.load() is login_file.forget() is None


def test_one_that_others_may_read_is_refused() -> None:
    login_file.save(LOGIN).chmod(0o640)
    with pytest.raises(InvalidInput, match="only its user may read"):
        login_file.load()
    assert login_file.forget() == Login("", "")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"server": "x", "key": "y", "more": 1}', "\xff"])
def test_a_broken_one_says_what_to_do(text: str) -> None:
    login_file.save(LOGIN).write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInput, match="log in again"):
        login_file.load()


def test_the_key_is_not_shown() -> None:
    assert LOGIN.key not in repr(LOGIN)


def test_it_is_used_where_nothing_else_names_a_place(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert login_file.chosen(None) == {}
    login_file.save(LOGIN)
    place = {"server": LOGIN.server, "key": LOGIN.key, "server_ca": "/etc/ca.pem", "server_insecure": None}
    assert login_file.chosen(None) == place
    assert login_file.chosen("sqlite:///a.db") == {"store": "sqlite:///a.db"}
    monkeypatch.setenv("ROTA_STORE", "sqlite:///a.db")
    assert login_file.chosen(None) == {}
    monkeypatch.delenv("ROTA_STORE")
    (home / "rota.toml").write_text('store = "sqlite:///a.db"')
    assert login_file.chosen(None) == {}


def test_its_key_goes_with_its_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    login_file.save(LOGIN)
    monkeypatch.setenv("ROTA_SERVER", f"{LOGIN.server}/")
    assert login_file.chosen(None) == {"key": LOGIN.key, "server_insecure": None}
    monkeypatch.setenv("ROTA_KEY", key_of(Role.VIEWER))
    assert login_file.chosen(None) == {}
    monkeypatch.delenv("ROTA_KEY")
    monkeypatch.setenv("ROTA_SERVER", "https://elsewhere.example.com")
    assert login_file.chosen(None) == {}
