"""Which addresses HTTP calls may go to.

A user who may order jobs reaches through a node every address that the node can reach: its own services, its cloud's
metadata with credentials. These are denied unless a rule allows them. Private networks are not denied, because many
nodes exist to call internal services; `http_deny = "private"` denies them.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import msgspec

from rota.errors import InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

GROUPS: dict[str, tuple[Network, ...]] = {
    name: tuple(ip_network(text) for text in texts)
    for name, texts in {
        # Metadata services of clouds: some are link-local, others are not.
        "metadata": (
            "169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192",
            "fd00:ec2::/32", "fd20:ce::254",
        ),
        "loopback": ("127.0.0.0/8", "::1"),
        "link-local": ("169.254.0.0/16", "fe80::/10"),
        "unspecified": ("0.0.0.0/8", "::"),
        "multicast": ("224.0.0.0/4", "ff00::/8"),
        "reserved": ("240.0.0.0/4",),
        "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"),
    }.items()
}  # fmt: skip
DENIED = ("metadata", "loopback", "link-local", "unspecified", "multicast", "reserved")
# The last 32 bits of these are an IPv4 address: of gateways (local ones too, RFC 8215) and of translators.
_TRANSLATED = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96")))
_COMPATIBLE = ip_network("::/96")
_EXPECTED = f"networks, host names such as *.example.com, or {', '.join(GROUPS)}"


class AddressRule(msgspec.Struct, frozen=True):
    text: str
    networks: tuple[Network, ...] = ()
    name: str | None = None  # of hosts, with * and ?

    def covers(self, host: str, address: Address | None) -> bool:
        if self.name is not None:
            return fnmatchcase(host, self.name)
        return address is not None and any(address in network for network in self.networks)


class AddressRules(msgspec.Struct, frozen=True):
    allow: tuple[AddressRule, ...] = ()
    deny: tuple[AddressRule, ...] = ()

    def objection(self, host: str, address: str | None = None) -> str | None:
        """The reason to deny a call to this host at this address; without an address, to this host at all."""
        faces: list[Address | None] = [None] if address is None else [*_faces(ip_address(address))]
        for face in faces:
            for rule in self.deny:
                if rule.covers(host, face):
                    return f"http_deny has {rule.text}"
        for face in faces:
            if face is not None and not any(rule.covers(host, face) for rule in self.allow):
                group = next((name for name in DENIED if any(face in network for network in GROUPS[name])), None)
                if group is not None:
                    return f"{group} addresses are denied unless http_allow has them"
        return None


def _faces(address: Address) -> list[Address]:
    """The address, and the IPv4 address to which a gateway or the system would map it."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    inner = [address.sixtofour, address.teredo[1] if address.teredo else None]
    if any(address in network for network in _TRANSLATED) or (address in _COMPATIBLE and int(address) > 1):
        inner.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return [address, *(face for face in inner if face is not None)]


def rules(what: str, given: Any) -> tuple[AddressRule, ...]:
    """From a list, or a text with commas."""
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise InvalidInput(what, given, _EXPECTED)
    return tuple(_rule(what, part.strip().lower()) for part in parts if part.strip())


def _rule(what: str, text: str) -> AddressRule:
    if text in GROUPS:
        return AddressRule(text, GROUPS[text])
    try:
        network = ip_network(text.strip("[]"), strict=False)
    except ValueError:
        if not all(c.isascii() and (c.isalnum() or c in "-_.*?") for c in text):
            raise InvalidInput(what, text, _EXPECTED) from None
        return AddressRule(text, name=text.removesuffix("."))
    return AddressRule(text, (network,))
