"""The socket of the API, opened before anything else: a node must know its role before it joins.

On loopback the API may be plain HTTP. Beyond it, keys would travel readable: there must be TLS, here or in a proxy.
"""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address

from rota.config import API_PORT, Settings
from rota.errors import InvalidInput

BACKLOG = 2048


class PortTaken(Exception):
    """The default port is taken: the node goes on without the API."""


def listen(settings: Settings) -> socket.socket:
    """Opens the socket that the settings name. Raises PortTaken if the default port is in use, and InvalidInput for
    any other trouble."""
    check_tls(settings)
    port = API_PORT if settings.api_port is None else settings.api_port
    family, address = _resolved(settings.api_host, port)
    if not (ip_address(address[0].partition("%")[0]).is_loopback or settings.api_tls_cert or settings.api_proxies):
        expected = "a loopback address; beyond it --tls-cert and --tls-key are needed, or --behind-proxy"
        raise InvalidInput("api_host", settings.api_host, expected)
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address[0] == "::" else 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise _trouble(error, settings) from None
    opened.setblocking(False)
    return opened


def url_of(opened: socket.socket, settings: Settings) -> str:
    """The address to call, as a URL."""
    host, port = opened.getsockname()[:2]
    if ip_address(host.partition("%")[0]).is_unspecified:
        host = settings.api_hosts[0] if settings.api_hosts else socket.gethostname()
    scheme = "https" if settings.api_tls_cert else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def check_tls(settings: Settings) -> None:
    for name, other in (("api_tls_cert", "api_tls_key"), ("api_tls_key", "api_tls_cert")):
        if getattr(settings, name) and not getattr(settings, other):
            raise InvalidInput(other, "", f"the path of a file, since {name} is given")


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidInput("api_host", host, f"a name or address of this machine ({error})") from None
    family, _, _, _, address = found[0]
    return family, address  # type: ignore[return-value]


def _trouble(error: OSError, settings: Settings) -> Exception:
    if error.errno == errno.EADDRINUSE:
        if settings.api_port is None:
            return PortTaken()
        return InvalidInput("api_port", settings.api_port, "a port that no other program listens on, or 0 for any")
    if error.errno in (errno.EACCES, errno.EPERM):
        return InvalidInput("api_port", settings.api_port, "a port that this user may listen on")
    return InvalidInput("api_host", settings.api_host, f"an address of this machine ({error.strerror})")
