"""TLS: another certificate while the server runs, and files that can't be used."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
import trustme

from rota.api.tls import Certificate
from rota.errors import InvalidInput
from rota.telemetry.events import CertificateChanged
from tests.api.serving import serving
from tests.contracts.world import World


class Files:
    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.client = ssl.create_default_context()
        self.authority.configure_trust(self.client)
        self._moment = 1_000_000_000

    def write(self, name: str) -> None:
        made = self.authority.issue_cert(name)
        self.put(self.cert, b"".join(blob.bytes() for blob in made.cert_chain_pems))
        self.put(self.key, made.private_key_pem.bytes())

    def put(self, path: Path, text: bytes) -> None:
        path.write_bytes(text)
        self._moment += 1
        os.utime(path, (self._moment, self._moment))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path)
    made.write("old.test")
    return made


async def test_a_new_certificate_is_served_without_a_restart(world: World, files: Files) -> None:
    async with serving(world, api_tls_cert=str(files.cert), api_tls_key=str(files.key)) as served:
        assert served.server.url.startswith("https://")
        assert b" 200 OK" in await served.ask(ssl=files.client, server_hostname="old.test")
        files.write("new.test")
        served.server._look()
        assert b" 200 OK" in await served.ask(ssl=files.client, server_hostname="new.test")
        files.put(files.key, b"half a key")
        served.server._look()
        served.server._look()
        assert b" 200 OK" in await served.ask(ssl=files.client, server_hostname="new.test")
        told = [event.trouble for event in served.told if isinstance(event, CertificateChanged)]
        assert told[0] is None
        assert len(told) == 2
        assert "certificate and its key" in str(told[1])


async def test_old_versions_of_tls_are_refused(world: World, files: Files) -> None:
    async with serving(world, api_tls_cert=str(files.cert), api_tls_key=str(files.key)) as served:
        assert Certificate(str(files.cert), str(files.key)).context.minimum_version == ssl.TLSVersion.TLSv1_2
        with pytest.raises((OSError, EOFError)):
            await served.ask()  # plain HTTP


def test_files_that_are_no_certificate_are_refused(files: Files, tmp_path: Path) -> None:
    for cert, key in ((files.cert, files.cert), (files.key, files.key), (tmp_path, files.key), ("missing", files.key)):
        with pytest.raises(InvalidInput, match="api_tls_"):
            Certificate(str(cert), str(key))


def test_a_key_with_a_password_does_not_ask_at_the_terminal(files: Files) -> None:
    from cryptography.hazmat.primitives import serialization as made

    key = made.load_pem_private_key(files.key.read_bytes(), None)
    locked = key.private_bytes(made.Encoding.PEM, made.PrivateFormat.PKCS8, made.BestAvailableEncryption(b"secret"))
    files.put(files.key, locked)
    with pytest.raises(InvalidInput, match="without a password"):
        Certificate(str(files.cert), str(files.key))
