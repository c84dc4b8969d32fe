"""The address of an object place: `file:objects`, or `s3://bucket/prefix?endpoint=https://host&region=us-east-1`."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import unquote

from rota.errors import InvalidInput

REGION = "us-east-1"
EXPECTED = (
    "an address such as file:objects, file:///var/lib/rota/objects, or "
    "s3://bucket/prefix?endpoint=https://s3.example.com&region=us-east-1"
)
_S3 = re.compile(
    r"s3://(?:(?P<login>[^/?#@]*)@)?(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])"
    r"(?P<prefix>(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*)/?(?:\?(?P<options>[^#]*))?"
)
_ENDPOINT = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?/?")
_REGION = re.compile(r"[a-z0-9-]{1,40}")


class FolderAddress(NamedTuple):
    path: str

    @property
    def place(self) -> str:
        return f"file:{self.path}"


class S3Address(NamedTuple):
    bucket: str
    prefix: str  # without slashes at its ends; "": the whole bucket
    endpoint: str  # without a slash at its end
    region: str
    login: tuple[str, str] | None  # access key and secret key; None: the environment has them (AWS_ACCESS_KEY_ID …)

    @property
    def place(self) -> str:
        """The address without what is secret."""
        path = f"/{self.prefix}" if self.prefix else ""
        return f"s3://{self.bucket}{path} at {self.endpoint}"

    @property
    def plain(self) -> bool:
        """Without TLS."""
        return self.endpoint.startswith("http:")

    def __repr__(self) -> str:
        return f"S3Address({self.place})"


def objects_address(url: str, name: str = "objects") -> FolderAddress | S3Address:
    if url.startswith("file:"):
        return _folder(url, name)
    found = _S3.fullmatch(url)
    if found is None:
        raise _invalid(name, url, EXPECTED)
    options = _options(name, url, found["options"])
    region = options.get("region", REGION)
    if not _REGION.fullmatch(region):
        raise _invalid(name, url, "a region such as us-east-1")
    endpoint = _endpoint(name, url, options) if "endpoint" in options else f"https://s3.{region}.amazonaws.com"
    return S3Address(found["bucket"], found["prefix"].strip("/"), endpoint, region, _login(name, url, found["login"]))


def _folder(url: str, name: str) -> FolderAddress:
    path = url.removeprefix("file:")
    if path.startswith("//"):
        path = path.removeprefix("//").removeprefix("localhost")
        if not path.startswith("/"):
            raise InvalidInput(name, url, "three slashes before a path from the root: file:///var/lib/rota/objects")
    if not path or "\0" in path:
        raise InvalidInput(name, url, EXPECTED)
    return FolderAddress(path)


def _options(name: str, url: str, text: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in (text or "").split("&"):
        word, _, value = option.partition("=")
        if not word and not value:
            continue
        if word not in ("endpoint", "region", "insecure") or word in found or (not value and word != "insecure"):
            raise _invalid(name, url, "endpoint=, region= and insecure after ?, each once")
        found[word] = unquote(value)
    if found.get("insecure", "true") not in ("", "true"):
        raise _invalid(name, url, "insecure without a value, or left out")
    return found


def _endpoint(name: str, url: str, options: dict[str, str]) -> str:
    endpoint = options["endpoint"].rstrip("/")
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None:
        raise _invalid(name, url, "an endpoint such as https://s3.example.com:8333, without a path and a password")
    if found["scheme"] == "http" and "insecure" not in options and not _loopback(found["host"]):
        raise _invalid(name, url, "an endpoint with https, or insecure if the network is trusted: &insecure")
    return endpoint


def _loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _login(name: str, url: str, given: str | None) -> tuple[str, str] | None:
    if not given:
        return None
    user, _, password = given.partition(":")
    if not (user and password):
        raise _invalid(name, url, "an access key and a secret key before the @, as in s3://key:secret@bucket")
    return unquote(user), unquote(password)


def _invalid(name: str, url: str, expected: str) -> InvalidInput:
    """A secret may stand anywhere, if the rest is wrong too: nothing before an @ or after a colon is shown, but for
    ports and schemes."""
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return InvalidInput(name, "***", expected)
    before, _, after = rest.rpartition("@")
    shown = ("***@" if before else "") + re.sub(r":(?!//|[0-9]{1,5}(?:[/?&]|$)).*", ":***", after)
    return InvalidInput(name, f"{scheme}://{shown}", expected)
