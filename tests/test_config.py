"""Settings: where they come from, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rota import config
from rota.errors import InvalidInput
from rota.model.access_keys import key_text
from rota.model.times import MINUTE, SECOND


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults() -> None:
    settings = config.load(environment={})
    assert settings.store == "sqlite:///rota.db"
    assert settings.queues == {"default": 16}
    assert settings.grace == 30 * SECOND


def test_file_then_environment_then_arguments(empty_folder: Path) -> None:
    (empty_folder / "rota.toml").write_text('grace = "1m"\nlease = "20s"\nuser = "file"\n[queues]\nmail = 2\n')
    settings = config.load({"user": "argument", "node": None}, {"ROTA_LEASE": "30s", "ROTA_USER": "environment"})
    assert (settings.grace, settings.lease, settings.user) == (MINUTE, 30 * SECOND, "argument")
    assert settings.queues == {"mail": 2}


def test_addresses_come_as_texts_and_as_lists(empty_folder: Path) -> None:
    (empty_folder / "rota.toml").write_text('http_deny = ["private", "*.Internal"]')
    settings = config.load(environment={"ROTA_HTTP_ALLOW": "127.0.0.1, loopback"})
    assert (settings.http_allow, settings.http_deny) == (("127.0.0.1", "loopback"), ("private", "*.internal"))


def test_sizes_come_as_numbers_and_with_units(empty_folder: Path) -> None:
    (empty_folder / "rota.toml").write_text('pool_memory = "256MiB"\nmax_output = 2048')
    settings = config.load({"http_max_body": "10MB"}, environment={"ROTA_MAX_ARGS": "4096", "ROTA_MAX_RESULT": "2MiB"})
    assert (settings.pool_memory, settings.max_output, settings.http_max_body) == (256 << 20, 2048, 10_000_000)
    assert (settings.max_args, settings.max_result) == (4096, 2 << 20)


def test_a_service_of_kubernetes_is_no_port() -> None:
    """Pods have ROTA_API_PORT for a Service `rota-api`, and ROTA_API_HOST is theirs to choose."""
    settings = config.load(environment={"ROTA_API_PORT": "tcp://10.0.0.1:8787", "ROTA_API_HOST": "0.0.0.0"})
    assert (settings.api_port, settings.api_host) == (None, "0.0.0.0")
    assert config.load(environment={"ROTA_API_PORT": "0"}).api_port == 0


def test_proxies_are_networks() -> None:
    assert config.load({"api_proxies": "10.0.0.5, loopback"}, {}).api_proxies == (
        "10.0.0.5/32",
        "127.0.0.0/8",
        "::1/128",
    )


def test_another_file_can_be_named(empty_folder: Path) -> None:
    (empty_folder / "other.toml").write_text('user = "other"')
    assert config.load(environment={"ROTA_CONFIG": "other.toml"}).user == "other"
    with pytest.raises(InvalidInput, match="ROTA_CONFIG"):
        config.load(environment={"ROTA_CONFIG": "missing.toml"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("store", "mysql://x"),
        ("store", "sqlite:///"),
        ("store", 5),
        ("node", "a b"),
        ("user", ""),
        ("roles", "control,boss"),
        ("roles", ""),
        ("queues", "default"),
        ("queues", "default:0"),
        ("queues", "default:x"),
        ("queues", "a:1,a:2"),
        ("queues", "a b:1"),
        ("http_allow", "10.0.0.0/99"),
        ("http_deny", 5),
        ("http_timeout", "0s"),
        ("http_max_body", 0),
        ("grace", "soon"),
        ("grace", "-1s"),
        ("lease", "1s"),
        ("prefetch", -1),
        ("prefetch", "many"),
        ("max_args", 0),
        ("max_args", True),
        ("max_output", "1 k b"),
        ("pool_memory", "1KB"),
        ("http_max_body", "2GiB"),
        ("crash_limit", 0),
        ("api_host", "a b"),
        ("api_port", 65_536),
        ("api_port", "tcp"),
        ("api_hosts", 5),
        ("api_hosts", "a b"),
        ("api_tls_cert", 5),
        ("api_proxies", "*.example.com"),
        ("api_proxies", "10.0.0.0/99"),
        ("api_max_body", 5),
        ("api_connections", 1),
        ("no_such_setting", 1),
    ],
)
def test_wrong_ones_are_refused_by_name_with_what_is_expected(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        config.load({name: value}, {})
    message = str(caught.value)
    assert name in message
    assert "expected" in message
    assert "\n" not in message


def test_a_wrong_one_says_where_it_was_given(empty_folder: Path) -> None:
    (empty_folder / "rota.toml").write_text("lease = '1s'\ngrace = '1s'\n")
    with pytest.raises(InvalidInput, match=r"^lease in rota\.toml: '1s' is not valid; expected a duration from 5s"):
        config.load(environment={})
    (empty_folder / "other.toml").write_text("queues = 'mail'\n")
    with pytest.raises(InvalidInput, match=r"^queues in other\.toml: 'mail' is not valid"):
        config.load(environment={"ROTA_CONFIG": "other.toml"})
    with pytest.raises(InvalidInput, match=r"^ROTA_LEASE: '2s' is not valid"):
        config.load(environment={"ROTA_LEASE": "2s"})
    with pytest.raises(InvalidInput, match=r"^lease: '3s' is not valid"):
        config.load({"lease": "3s"}, environment={"ROTA_LEASE": "2s"})


def test_a_file_that_makes_no_sense_is_refused(empty_folder: Path) -> None:
    (empty_folder / "rota.toml").write_text("grace = ")
    with pytest.raises(InvalidInput, match=r"rota\.toml"):
        config.load(environment={})
    (empty_folder / "rota.toml").write_text("graze = 1")
    with pytest.raises(InvalidInput, match="graze"):
        config.load(environment={})


class TestNamesInTheEnvironment:
    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("ROTA_STOER", "did you mean ROTA_STORE?"),
            ("ROTA_LEASES", "did you mean ROTA_LEASE?"),
            ("ROTA_KILLGRACE", "did you mean ROTA_KILL_GRACE?"),
            ("ROTA_CONFG", "did you mean ROTA_CONFIG?"),
            ("ROTA_store", "did you mean ROTA_STORE?"),
            ("ROTA_ELEPHANT", "the name of a setting: docs/settings.md lists them"),
            ("ROTA_", "the name of a setting: docs/settings.md lists them"),
        ],
    )
    def test_an_unknown_one_is_refused_without_its_value(self, name: str, meant: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            config.load(environment={"ROTA_USER": "me", name: "postgresql://me:secret@host/db"})
        message = str(caught.value)
        assert message.startswith(f"environment variable: {name!r} is not valid; expected ")
        assert meant in message
        assert "secret" not in message
        assert "\n" not in message

    def test_those_for_jobs_tests_and_other_software_are_left_alone(self) -> None:
        others = ["ROTATE", "rota_store", "PATH", "ROTA_TEST_POSTGRES", *config.JOB_VARIABLES]
        assert config.load(environment=dict.fromkeys(others, "7")) == config.Settings()

    @pytest.mark.parametrize(
        "name",
        ["ROTA_SERVICE_HOST", "ROTA_SERVICE_PORT", "ROTA_SERVICE_PORT_HTTP", "ROTA_PORT", "ROTA_PORT_80_TCP_ADDR",
         "ROTA_WEB_SERVICE_HOST"],
    )  # fmt: skip
    def test_those_of_a_kubernetes_service_are_left_alone(self, name: str) -> None:
        assert config.load(environment={name: "tcp://10.0.0.1:80"}) == config.Settings()

    def test_an_empty_one_counts_as_not_set(self) -> None:
        assert config.load(environment={"ROTA_STOER": "", "ROTA_LEASE": ""}) == config.Settings()


class TestSecrets:
    """The address of a store may hold a password, which programs that this one starts need not know."""

    @pytest.fixture(autouse=True)
    def aside(self, empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(config, "_put_aside", {})
        for name in [name for name in os.environ if name.startswith("ROTA_")]:
            monkeypatch.delenv(name)

    @pytest.mark.parametrize("store", ["postgresql://me:secret@host/db", "postgresql://host/db?password=secret"])
    def test_are_taken_out_of_the_environment_and_known_all_the_same(
        self, monkeypatch: pytest.MonkeyPatch, store: str
    ) -> None:
        monkeypatch.setenv("ROTA_STORE", store)
        monkeypatch.setenv("ROTA_USER", "me")
        monkeypatch.setenv("DATABASE_URL", store)
        config.put_secrets_aside()
        config.put_secrets_aside()
        assert "ROTA_STORE" not in os.environ
        assert (os.environ["ROTA_USER"], os.environ["DATABASE_URL"]) == ("me", store)
        assert config.variables()["ROTA_STORE"] == store
        assert config.load().store == store
        monkeypatch.setenv("ROTA_STORE", "sqlite:///other.db")
        assert config.load().store == "sqlite:///other.db"

    def test_an_address_without_one_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROTA_STORE", "postgresql://me@host/db")
        config.put_secrets_aside()
        assert os.environ["ROTA_STORE"] == "postgresql://me@host/db"


# -- a store or a server ---------------------------------------------------------------------------------------------
KEY = key_text("0123456789ab", b"x" * 32)
SERVER = {"ROTA_SERVER": "https://rota.example.com/", "ROTA_KEY": KEY}


def test_the_strongest_place_decides_between_store_and_server(empty_folder: Path) -> None:
    found = config.load(environment=SERVER)
    assert (found.server, found.key, found.place) == ("https://rota.example.com", KEY, "https://rota.example.com")
    found = config.load({"store": "sqlite:///a.db"}, SERVER)
    assert (found.server, found.key, found.place) == ("", "", "sqlite:///a.db")
    (empty_folder / "rota.toml").write_text('store = "sqlite:///b.db"')
    assert config.load(environment=SERVER).server
    assert config.load({"server": "http://localhost:1"}, SERVER).server == "http://localhost:1"
    assert config.load({"server": "http://localhost:1"}, {"ROTA_STORE": "sqlite:///c.db"}).place == "http://localhost:1"


def test_a_place_that_names_both_is_refused() -> None:
    both = {**SERVER, "ROTA_STORE": "postgresql://me:secret@db/rota"}
    with pytest.raises(InvalidInput, match=r"ROTA_STORE and ROTA_SERVER: .* expected one of them") as wrong:
        config.load(environment=both)
    assert "secret" not in str(wrong.value)
    assert config.load({"store": "sqlite:///a.db"}, {"ROTA_STORE": "sqlite:///b.db"}).store == "sqlite:///a.db"


@pytest.mark.parametrize(
    "server", ["example.com", "ftp://example.com", "https://", "https://a:b@example.com", "https://example.com/?a=1", 7]
)
def test_a_server_is_an_address(server: Any) -> None:
    with pytest.raises(InvalidInput, match=r"server: .* expected an address such as https://rota"):
        config.load({"server": server}, {})


@pytest.mark.parametrize("key", ["rota_x", KEY[:-1], KEY + "\n"])
def test_a_key_that_is_none_is_refused_without_being_shown(key: Any) -> None:
    with pytest.raises(InvalidInput, match="key") as wrong:
        config.load({"server": "http://localhost:1", "key": key}, {})
    assert str(key) not in str(wrong.value)


def test_a_key_is_never_shown() -> None:
    settings = config.load({"store": None}, {**SERVER, "ROTA_USER": "ann"})
    assert KEY not in repr(settings)
    assert "user='ann'" in repr(settings)


def test_a_key_is_put_aside_from_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_put_aside", {})
    for name, value in SERVER.items():
        monkeypatch.setenv(name, value)
    config.put_secrets_aside()
    assert "ROTA_KEY" not in os.environ
    assert config.load().key == KEY


def test_whether_a_place_is_named(empty_folder: Path) -> None:
    assert not config.names_place({"ROTA_USER": "ann"})
    assert config.names_place(SERVER)
    assert config.names_place({"ROTA_STORE": "sqlite:///a.db"})
    (empty_folder / "rota.toml").write_text('server = "http://localhost:1"')
    assert config.names_place({})
