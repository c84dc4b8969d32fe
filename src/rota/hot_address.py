"""The address of a server of the hot tier: `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from rota.errors import InvalidInput

PORT = 6379
EXPECTED = "an address such as redis://localhost:6379/0, or rediss://user:password@host:6379/0?ca=ca.pem with TLS"
_URL = re.compile(
    r"(?P<scheme>rediss?)://(?:(?P<login>[^/?#]*)@)?"
    r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/?#@\[\]]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?:/(?P<database>[0-9]{0,4}))?(?:\?(?P<rest>[^#]*))?",
    re.IGNORECASE,
)


class HotAddress(NamedTuple):
    host: str
    port: int
    database: int
    tls: bool
    ca: str  # a file with the certificates that the server's must be signed by; "": those that this system trusts
    login: tuple[bytes, ...]  # nothing, a password, or a user and a password

    @property
    def place(self) -> str:
        """The address without what is secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis{'s' if self.tls else ''}://{host}:{self.port}/{self.database}"

    def __repr__(self) -> str:
        return f"HotAddress({self.place})"


def hot_address(url: str, name: str = "hot") -> HotAddress:
    found = _URL.fullmatch(url)
    if found is None:
        raise _invalid(name, url, EXPECTED)
    port, tls = int(found["port"] or PORT), found["scheme"].lower() == "rediss"
    if not 1 <= port <= 65_535:
        raise _invalid(name, url, "a port from 1 to 65535")
    ca = ""
    if found["rest"]:
        option, _, value = found["rest"].partition("=")
        if option != "ca" or not value or "&" in value or not tls:
            raise _invalid(
                name, url, "nothing after ? but, with rediss://, ca= and a file with certificates in PEM form"
            )
        ca = unquote_to_bytes(value).decode(errors="surrogateescape")
    host = found["host"].strip("[]").lower()
    return HotAddress(host, port, int(found["database"] or 0), tls, ca, _login(name, url, found["login"]))


def _login(name: str, url: str, given: str | None) -> tuple[bytes, ...]:
    if not given:
        return ()
    user, colon, password = given.partition(":")
    if not (colon and password):
        raise _invalid(
            name, url, "a password after the user, as in redis://user:password@host or redis://:password@host"
        )
    parts = (user, password) if user else (password,)
    return tuple(unquote_to_bytes(part) for part in parts)


def _invalid(name: str, url: str, expected: str) -> InvalidInput:
    """A password may stand anywhere, if the rest is wrong too."""
    scheme, slashes, rest = url.partition("://")
    before, _, after = rest.rpartition("@")
    shown = ("***@" if before else "") + re.sub(r":(?![0-9]{1,5}(?:[/?]|$)).*", ":***", after)
    return InvalidInput(name, f"{scheme}{slashes}{shown}" if slashes else "***", expected)
