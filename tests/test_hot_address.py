from __future__ import annotations

import pytest

from rota.errors import InvalidInput
from rota.hot_address import hot_address


@pytest.mark.parametrize(
    ("url", "place", "login"),
    [
        ("redis://cache", "redis://cache:6379/0", ()),
        ("redis://cache/", "redis://cache:6379/0", ()),
        ("REDIS://Cache.Example:7000/3", "redis://cache.example:7000/3", ()),
        ("redis://[::1]:7000", "redis://[::1]:7000/0", ()),
        ("rediss://cache?ca=some%20ca.pem", "rediss://cache:6379/0", ()),
        ("redis://:secret@cache", "redis://cache:6379/0", (b"secret",)),
        ("redis://rota:secret@cache/15", "redis://cache:6379/15", (b"rota", b"secret")),
        ("redis://r%40ta:%2F%3A%40%C3%A9%FF@cache", "redis://cache:6379/0", (b"r@ta", b"/:@\xc3\xa9\xff")),
        ("redis://rota:a@b:c@cache", "redis://cache:6379/0", (b"rota", b"a@b:c")),
        ("redis://@cache", "redis://cache:6379/0", ()),
    ],
)
def test_addresses(url: str, place: str, login: tuple[bytes, ...]) -> None:
    address = hot_address(url)
    assert (address.place, address.login) == (place, login)
    assert repr(address) == f"HotAddress({place})"


def test_tls_and_its_authority() -> None:
    assert not hot_address("redis://cache").tls
    assert (hot_address("rediss://cache").tls, hot_address("rediss://cache").ca) == (True, "")
    assert hot_address("rediss://cache/1?ca=some%20ca.pem").ca == "some ca.pem"


@pytest.mark.parametrize(
    "url",
    [
        "", "cache", "http://cache", "redis:cache", "redis://", "redis:///0", "redis://cache:0", "redis://cache:70000",
        "redis://cache:x", "redis://cache/x", "redis://cache/0/1", "redis://cache/-1", "redis://cache?x=1",
        "redis://cache?ca=x", "rediss://cache?ca=", "rediss://cache?ca=x&db=1", "redis://user@cache", "redis://user:@cache",
        "redis://ca che", "redis://cache#1", "redis://cache\n",
    ],
)  # fmt: skip
def test_others_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"hot: .* expected"):
        hot_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://rota:s3cret@cache:x", "redis://:s3cret", "redis://rota:s3cret", "redis://rota:s3c@ret@",
        "rota:s3cret@cache",
        "redis://rota:/s3cret@cache", "redis://s3cret@cache", "redis://rota:s3cret@cache?x=1", "http://rota:s3cret@cache",
        "redis//:s3cret@cache", "redis://rota:#s3cret@cache",
    ],
)  # fmt: skip
def test_secrets_of_wrong_addresses_are_not_told(url: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        hot_address(url)
    assert "s3c" not in str(raised.value)
