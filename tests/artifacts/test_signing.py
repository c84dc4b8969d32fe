"""Signed URLs of a folder: what they allow, how long, and that nothing else comes of them."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.artifacts.place import Method
from rota.artifacts.signing import SignatureExpired, SignatureForged, UrlSigner
from rota.errors import InvalidInput
from rota.model.times import SECOND

NOW = 1_800_000_000 * SECOND + 1
SIGNER = UrlSigner(bytes(32))


def signed(method: Method = "PUT", key: str = "a/b", life: int = 60, size: int | None = None) -> dict[str, str]:
    return dict(parse_qsl(SIGNER.sign(method, key, life, NOW, size)))


@pytest.mark.parametrize("size", [None, 0, 5, 64 << 30])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_url_allows_what_it_says(method: Method, size: int | None) -> None:
    use = SIGNER.check(method, "a/b", signed(method, size=size), NOW)
    assert use == (method, "a/b", 1_800_000_061, size)


def test_a_url_expires() -> None:
    query = signed(life=1)
    assert SIGNER.check("PUT", "a/b", query, NOW + SECOND)
    with pytest.raises(SignatureExpired, match="expired: ask for a new one"):
        SIGNER.check("PUT", "a/b", query, NOW + 2 * SECOND)


def test_a_forged_url_is_not_called_expired() -> None:
    with pytest.raises(SignatureForged):
        SIGNER.check("PUT", "a/c", signed(life=1), NOW + 99 * SECOND)


@pytest.mark.parametrize(
    "change",
    [
        {"expires": "1800000062"}, {"expires": "01800000061"}, {"expires": "+1800000061"}, {"expires": ""},
        {"expires": "18000000610"}, {"expires": "9" * 5000}, {"expires": "١٨٠٠٠٠٠٠٦١"}, {"size": "6"}, {"size": "-1"},
        {"size": ""}, {"size": "05"}, {"signature": ""}, {"signature": "é"}, {"signature": "\udc80"},
        {"signature": "A" * 43},
    ],
)  # fmt: skip
def test_a_changed_query_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(SignatureForged):
        SIGNER.check("PUT", "a/b", signed(size=5) | change, NOW)


@pytest.mark.parametrize("name", ["expires", "size", "signature"])
def test_a_query_with_a_part_left_out_is_refused(name: str) -> None:
    query = signed(size=5)
    del query[name]
    with pytest.raises(SignatureForged):
        SIGNER.check("PUT", "a/b", query, NOW)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "put", "", "PUT\n"])
def test_another_method_is_refused(method: str) -> None:
    with pytest.raises(SignatureForged):
        SIGNER.check(method, "a/b", signed(), NOW)


@given(st.text(max_size=40))
def test_another_key_is_refused(key: str) -> None:
    if key != "a/b":
        with pytest.raises(SignatureForged):
            SIGNER.check("PUT", key, signed(), NOW)


def test_a_size_that_was_not_said_is_refused() -> None:
    with pytest.raises(SignatureForged):
        SIGNER.check("PUT", "a/b", signed() | {"size": "5"}, NOW)


def test_another_secret_signs_otherwise() -> None:
    with pytest.raises(SignatureForged):
        UrlSigner(b"\1" * 32).check("PUT", "a/b", signed(), NOW)


def test_a_secret_can_not_be_guessed() -> None:
    with pytest.raises(InvalidInput, match="at least 32 bytes"):
        UrlSigner(b"secret")


def test_only_reading_and_writing_are_signed() -> None:
    with pytest.raises(InvalidInput, match="GET or PUT"):
        signed("DELETE")  # type: ignore[arg-type]


def test_the_signature_is_an_hmac_of_everything() -> None:
    """A later version must make the same, or servers of two versions refuse each other's URLs."""
    assert signed(size=5)["signature"] == "OX0F0nwWLjUCVn329UeGGF5kiWdc41i9gq2PRk4tAVg"
