"""The setting `hot`: addresses of a hot tier, whose passwords are shown nowhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rota import config
from rota.errors import InvalidInput

SECRET = "s3cret"
ONE, TWO = f"redis://:{SECRET}@a:6379/0", f"rediss://me:{SECRET}@b/1?ca=ca.pem"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "_put_aside", {})
    for name in [name for name in os.environ if name.startswith("ROTA_")]:
        monkeypatch.delenv(name)
    return tmp_path


def test_none_unless_it_is_set() -> None:
    assert config.load({}, {}).hot == ()
    assert config.load({}, {"ROTA_HOT": ""}).hot == ()
    assert config.load({"hot": []}, {}).hot == ()


@pytest.mark.parametrize("given", [f"{ONE},{TWO}", f" {ONE} , {TWO} ,", [ONE, TWO], (ONE, TWO)])
def test_it_is_a_list_of_addresses(given: Any) -> None:
    assert config.load({"hot": given}, {}).hot == (ONE, TWO)


def test_it_comes_from_the_environment_or_a_file(empty_folder: Path) -> None:
    (empty_folder / "rota.toml").write_text(f'hot = ["{ONE}", "{TWO}"]')
    assert config.load(environment={}).hot == (ONE, TWO)
    assert config.load(environment={"ROTA_HOT": "redis://c"}).hot == ("redis://c",)


def test_passwords_are_not_shown() -> None:
    shown = repr(config.load({"hot": [ONE, TWO]}, {}))
    assert SECRET not in shown
    assert "hot=('redis://a:6379/0', 'rediss://b:6379/1')" in shown


@pytest.mark.parametrize("value", [f"{ONE},{ONE}", "redis://a,redis://A:6379/0", f"{ONE},redis://other:{SECRET}@a"])
def test_an_address_stands_there_once(value: str) -> None:
    with pytest.raises(InvalidInput, match=r"ROTA_HOT: 'redis://a:6379/0' .* expected each address once") as wrong:
        config.load(environment={"ROTA_HOT": value})
    assert SECRET not in str(wrong.value)


def test_databases_of_one_server_are_different_members() -> None:
    assert len(config.load({"hot": "redis://a/0,redis://a/1,rediss://a/0"}, {}).hot) == 3


@pytest.mark.parametrize(
    "value", [7, True, [7], {"a": 1}, f"http://:{SECRET}@a", f"{ONE},redis//:{SECRET}@b", [ONE, "x"]]
)
def test_a_wrong_one_is_refused_without_its_password(value: Any) -> None:
    with pytest.raises(InvalidInput, match="hot: ") as wrong:
        config.load({"hot": value}, {})
    assert SECRET not in str(wrong.value)


def test_a_password_with_a_comma_is_written_as_the_guide_says() -> None:
    assert config.load({"hot": "redis://:a%2Cb@a"}, {}).hot == ("redis://:a%2Cb@a",)
    with pytest.raises(InvalidInput, match="hot: ") as wrong:
        config.load({"hot": f"redis://:{SECRET},{SECRET}@a"}, {})
    assert SECRET not in str(wrong.value)


def test_a_server_has_none() -> None:
    with pytest.raises(InvalidInput, match=r"ROTA_HOT: .* nothing beside a server") as wrong:
        config.load(environment={"ROTA_SERVER": "http://localhost:1", "ROTA_HOT": ONE})
    assert SECRET not in str(wrong.value)
    with pytest.raises(InvalidInput, match="hot: "):
        config.load({"server": "http://localhost:1", "hot": ONE}, {})


def test_a_server_that_is_named_more_strongly_drops_it() -> None:
    assert config.load({"server": "http://localhost:1"}, {"ROTA_HOT": ONE}).hot == ()
    assert config.load({"store": "sqlite:///a.db"}, {"ROTA_HOT": ONE}).hot == (ONE,)


@pytest.mark.parametrize("value", [ONE, TWO, f"redis://c,{TWO}"])
def test_passwords_are_put_aside_from_children(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ROTA_HOT", value)
    config.put_secrets_aside()
    assert "ROTA_HOT" not in os.environ
    assert config.variables()["ROTA_HOT"] == value


def test_an_address_without_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_HOT", "redis://a,redis://b:1/2")
    config.put_secrets_aside()
    assert os.environ["ROTA_HOT"] == "redis://a,redis://b:1/2"
