"""Which addresses HTTP calls may go to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.addresses import GROUPS, AddressRules, rules


def made(allow: Any = (), deny: Any = ()) -> AddressRules:
    return AddressRules(rules("http_allow", allow), rules("http_deny", deny))


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("127.0.0.1", "loopback"), ("127.255.255.254", "loopback"), ("::1", "loopback"),
        ("169.254.169.254", "metadata"), ("169.254.170.2", "metadata"), ("fd00:ec2::254", "metadata"),
        ("fd00:ec2::23", "metadata"), ("fd20:ce::254", "metadata"), ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"), ("169.254.1.1", "link-local"), ("fe80::1", "link-local"),
        ("0.0.0.0", "unspecified"), ("0.1.2.3", "unspecified"), ("::", "unspecified"),
        ("224.0.0.1", "multicast"), ("ff02::1", "multicast"), ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        # in disguise
        ("::ffff:127.0.0.1", "loopback"), ("::ffff:169.254.169.254", "metadata"), ("::127.0.0.1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "metadata"), ("2002:7f00:1::", "loopback"),
        ("64:ff9b:1::7f00:1", "loopback"), ("::ffff:0:127.0.0.1", "loopback"),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", "loopback"),
    ],
)  # fmt: skip
def test_denied_by_themselves(address: str, group: str) -> None:
    objection = made().objection("example.com", address)
    assert objection == f"{group} addresses are denied unless http_allow has them"
    assert made(allow=group).objection("example.com", address) is None


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "10.1.2.3", "192.168.0.1", "172.16.0.1", "100.64.0.1", "fd12::1", "2606::1"]
)
def test_allowed_by_themselves(address: str) -> None:
    assert made().objection("example.com", address) is None


def test_deny_wins_over_allow_and_allow_over_the_defaults() -> None:
    assert made("127.0.0.0/8").objection("a", "127.0.0.1") is None
    assert made("127.0.0.1").objection("a", "127.0.0.2") is not None
    assert made("127.0.0.0/8", "127.0.0.2").objection("a", "127.0.0.2") == "http_deny has 127.0.0.2"
    assert made(deny="private").objection("a", "10.0.0.1") == "http_deny has private"
    assert made("10.0.0.1", "private").objection("a", "10.0.0.1") == "http_deny has private"
    assert made(deny="10.0.0.0/8").objection("a", "::ffff:10.0.0.1") == "http_deny has 10.0.0.0/8"


def test_names_of_hosts() -> None:
    assert made("localhost").objection("localhost", "127.0.0.1") is None
    assert made("localhost").objection("evil.example", "127.0.0.1") is not None
    denying = made(deny=["*.Internal", "metadata.google.internal."])
    assert denying.objection("db.internal") == "http_deny has *.internal"
    assert denying.objection("internal") is None
    assert made("*.example", "bad.example").objection("bad.example", "8.8.8.8") == "http_deny has bad.example"
    assert made().objection("anything") is None


@pytest.mark.parametrize("given", ["10.0.0.0/99", "a b", "http://a", "a/b", "ü", 5, [5], {"a": 1}, None, "a;b"])
def test_what_is_no_rule_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="http_deny"):
        rules("http_deny", given)


def test_lists_and_texts_say_the_same() -> None:
    assert rules("x", " 10.0.0.0/8 ,[::1],, LOOPBACK") == rules("x", ["10.0.0.0/8", "[::1]", "loopback"])
    assert rules("x", "") == ()


@given(st.ip_addresses())
def test_every_address_is_judged_and_nothing_denied_is_passed(address: Any) -> None:
    denied = any(
        address in net for name in GROUPS if name != "private" for net in GROUPS[name] if net.version == address.version
    )
    objection = made().objection("a", str(address))
    assert not denied or objection is not None
