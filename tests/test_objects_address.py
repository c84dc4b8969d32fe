"""Addresses of object places: what they say, what is refused, and that no secret is shown."""

from __future__ import annotations

import pytest

from rota.config import without_secrets
from rota.errors import InvalidInput
from rota.objects_address import FolderAddress, S3Address, objects_address

SECRET = "Xy/Zsecret+1="


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:objects", "objects"), ("file:./a/b", "./a/b"), ("file:/var/lib/x", "/var/lib/x"),
        ("file:///var/lib/x", "/var/lib/x"), ("file://localhost/var/lib/x", "/var/lib/x"),
    ],
)  # fmt: skip
def test_a_folder(url: str, path: str) -> None:
    assert objects_address(url) == FolderAddress(path)
    assert objects_address(url).place == f"file:{path}"


def test_a_bucket_of_aws() -> None:
    found = objects_address("s3://my-bucket?region=eu-central-1")
    assert found == S3Address("my-bucket", "", "https://s3.eu-central-1.amazonaws.com", "eu-central-1", None)
    assert found.place == "s3://my-bucket at https://s3.eu-central-1.amazonaws.com"


def test_a_bucket_elsewhere() -> None:
    url = "s3://key:Xy%2FZsecret%2B1%3D@my-bucket/some/Prefix_1/?endpoint=http://127.0.0.1:8333/&region=us-east-1"
    found = objects_address(url)
    assert found == S3Address("my-bucket", "some/Prefix_1", "http://127.0.0.1:8333", "us-east-1", ("key", SECRET))
    assert isinstance(found, S3Address)
    assert found.plain
    assert "secret" not in f"{found!r} {found} {found.place} {without_secrets(url)}"


def test_an_endpoint_may_be_escaped() -> None:
    found = objects_address("s3://my-bucket?endpoint=https%3A%2F%2Fs3.example.com%3A9000")
    assert isinstance(found, S3Address)
    assert (found.endpoint, found.plain) == ("https://s3.example.com:9000", False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "[::1]"])
def test_this_machine_needs_no_tls(host: str) -> None:
    assert objects_address(f"s3://my-bucket?endpoint=http://{host}:8333")


@pytest.mark.parametrize(
    "host", ["s3.example.com", "10.0.0.1", "localhost.example.com", "0.0.0.0", "[::2]", "127.0.0.1.example.com"]
)
def test_others_need_tls_unless_it_is_said(host: str) -> None:
    with pytest.raises(InvalidInput, match="an endpoint with https, or insecure"):
        objects_address(f"s3://my-bucket?endpoint=http://{host}:8333")
    for said in ("insecure", "insecure=true"):
        assert objects_address(f"s3://my-bucket?endpoint=http://{host}:8333&{said}")


@pytest.mark.parametrize(
    "url",
    [
        "", "objects", "/var/lib/x", "file:", "file://host/x", "file:a\0b", "s3:", "s3://", "s3://a", "s3://My-Bucket", "s3:///x",
        "s3://my-bucket/../x", "s3://my-bucket/a//b", "s3://my-bucket/.x", "s3://my-bucket#x", "s3://key@my-bucket",
        "s3://:secret@my-bucket", "s3://key:@my-bucket", "s3://my-bucket?region=", "s3://my-bucket?region=a b",
        "s3://my-bucket?region=a&region=b", "s3://my-bucket?other=1", "s3://my-bucket?endpoint=", "s3://my-bucket?insecure=no",
        "s3://my-bucket?endpoint=ftp://host", "s3://my-bucket?endpoint=https://host/path",
        "s3://my-bucket?endpoint=https://key:secret@host", "https://my-bucket", "s3://my-bucket?endpoint=https://host:123456",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="ROTA_OBJECTS") as raised:
        objects_address(url, "ROTA_OBJECTS")
    assert "secret" not in str(raised.value).replace("access key and a secret key", "").replace("key:secret@bucket", "")


@pytest.mark.parametrize(
    "url",
    [
        f"s3://key:{SECRET}@my-bucket", f"s3://key:{SECRET}@My-Bucket", f"s3://key:{SECRET}", f"key:{SECRET}@my-bucket",
        f"s3://my-bucket?endpoint=https://key:{SECRET}@host", f"s4://key:{SECRET}@x", f"s3://key:{SECRET}@my-bucket?x=1",
    ],
)  # fmt: skip
def test_a_wrong_address_shows_no_secret(url: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        objects_address(url)
    assert "Zsecret" not in f"{raised.value} {raised.value.given!r} {raised.value.args}"
