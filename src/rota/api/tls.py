"""TLS of the API: the certificate, and its exchange while the server runs."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable

from rota.errors import InvalidInput

LOOK_EVERY = 5.0  # seconds


class Certificate:
    """A certificate and its key in files. `context` serves the one that was read last."""

    def __init__(self, cert: str, key: str) -> None:
        self._cert, self._key = cert, key
        self._seen = self._stamp()
        self.context = self._read()

    def reload(self, told: Callable[[str | None], None]) -> None:
        """Reads the files again if they have changed. New connections get the new certificate. Files that can't be
        used, or don't belong together, change nothing: `told` gets the reason, and None for a success."""
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._read()  # into another context: a failure half-way would leave the live one without a key
            self.context.load_cert_chain(self._cert, self._key, _no_password)
        except InvalidInput as error:
            told(str(error))
        except (OSError, ValueError) as error:
            told(f"{self._cert}: {error}")
        else:
            told(None)

    def _stamp(self) -> tuple[object, ...]:
        return tuple(_stamp(path) for path in (self._cert, self._key))

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        for name, path in (("api_tls_cert", self._cert), ("api_tls_key", self._key)):
            if not os.access(path, os.R_OK) or os.path.isdir(path):  # noqa: PTH112
                raise InvalidInput(name, path, "the path of a file that can be read")
        try:
            context.load_cert_chain(self._cert, self._key, _no_password)
        except (OSError, ValueError) as error:
            expected = f"a certificate and its key in PEM, without a password ({error})"
            raise InvalidInput("api_tls_cert", self._cert, expected) from None
        return context


def _no_password() -> str:
    """Asked for a key with a password. Without this function OpenSSL would ask at the terminal, and block the node."""
    raise ValueError("the key has a password")


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
