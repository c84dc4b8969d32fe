"""The address of a PostgreSQL store."""

from __future__ import annotations

import pytest

from rota.errors import InvalidInput
from rota.store.postgres.address import Address, address


def test_a_plain_address_is_the_drivers() -> None:
    assert address("postgresql://rota@db.example:5432/shop") == Address("postgresql://rota@db.example:5432/shop")
    assert address("postgres://db/shop").url == "postgresql://db/shop"


def test_the_schema_is_ours_and_the_rest_is_not() -> None:
    found = address("postgresql://db/shop?sslmode=verify-full&schema=other&passfile=%2Fetc%2Fpass")
    assert found.schema == "other"
    assert found.url == "postgresql://db/shop?sslmode=verify-full&passfile=%2Fetc%2Fpass"
    assert address("postgresql://db/shop").schema == "rota"


def test_several_hosts_look_for_the_one_that_can_be_written() -> None:
    found = address("postgresql://rota@one,two:5433/shop")
    assert len(found.urls) == 2
    assert found.url == "postgresql://rota@one,two:5433/shop?target_session_attrs=read-write"
    own = address("postgresql://one,two/shop?target_session_attrs=primary")
    assert own.url == "postgresql://one,two/shop?target_session_attrs=primary"
    assert len(address("postgresql://user,with,commas@one/shop").urls) == 1


@pytest.mark.parametrize(
    "schema", ["", "Rota", "1st", "pg_rota", "a-b", "a.b", "x" * 49, "rota;drop", "schéma", 'ro"ta', "rota%0A"]
)
def test_a_schema_that_would_need_quotes_is_refused(schema: str) -> None:
    with pytest.raises(InvalidInput, match="schema"):
        address(f"postgresql://db/shop?schema={schema}")


@pytest.mark.parametrize("schema", ["_", "r2", "x" * 48])
def test_other_schemas_are_taken(schema: str) -> None:
    assert address(f"postgresql://db/shop?schema={schema}").schema == schema


@pytest.mark.parametrize("url", ["mysql://db/shop", "db", "", "postgresql://[::1/shop"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="store"):
        address(url)


@pytest.mark.parametrize("port", ["port", "5432x", "0", "65536", "-1"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    for hosts in (f"db:{port}", f"one:5432,two:{port}"):
        with pytest.raises(InvalidInput, match="store"):
            address(f"postgresql://rota@{hosts}/shop")


def test_addresses_of_version_6_and_sockets() -> None:
    assert address("postgresql://rota@[::1]:5433/shop").place == "PostgreSQL at rota@[::1]:5433/shop"
    assert address("postgresql:///shop?host=/run/postgresql").place == "PostgreSQL at /shop"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://rota:sesame@db/shop",
        "postgresql://rota:ses%40me%2Fsesame@db/shop",
        "postgresql://rota:x@sesame@db/shop",
        "postgresql://rota:x:sesame@db/shop",
        "postgresql://rota:x/sesame@db/shop",
        "postgresql://rota:sesame#x@db/shop",
        "postgresql://rota:sesame?x@db/shop",
        "postgresql://:sesame@db/shop",
        "postgresql://db/shop?password=sesame&user=rota",
        "postgresql://db/shop?sslpassword=sesame",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    """Neither one in its place nor one with characters in it that should have been written in another way."""
    try:
        shown = address(url).place
    except InvalidInput as error:
        shown = str(error)
    assert "sesame" not in shown
