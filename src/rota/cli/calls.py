"""HTTP calls on the command line: reading the flags of `--http`, and showing a call."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rota.app_core import AppCore
from rota.errors import InvalidInput
from rota.orders import HttpCall


def call_of(app: AppCore, args: argparse.Namespace) -> HttpCall:
    method, url = args.http
    return app.http(
        method, url, headers=_headers(args), json=_json(args.json_body), body=_body(args.body), expect=args.expect,
        redirects=args.redirects, name=args.name,
    )  # fmt: skip


def _headers(args: argparse.Namespace) -> dict[str, str]:
    """The headers of all flags, each name once. Messages don't repeat values: they may be secrets."""
    found: dict[str, str] = {}
    for name, value in (
        *_pairs(args.header or [], ":", "--header", "'Name: value'"),
        *_variables(args.header_env or []),
        *_from_file(args.header_file),
    ):
        if name.lower() in (other.lower() for other in found):
            raise InvalidInput("header", name, "each header once")
        found[name] = value
    return found


def _pairs(given: Sequence[str], sign: str, what: str, expected: str) -> Iterator[tuple[str, str]]:
    for text in given:
        name, found, value = text.partition(sign)
        if not found or not name.strip():
            raise InvalidInput(what, "***", expected)
        yield name.strip(), value.strip()


def _variables(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name, variable in _pairs(given, "=", "--header-env", "NAME=VARIABLE, such as Authorization=API_AUTH"):
        if variable not in os.environ:
            raise InvalidInput("--header-env", variable, "a variable that is set")
        yield name, os.environ[variable]


def _from_file(path: str | None) -> Iterator[tuple[str, str]]:
    if path is None:
        return iter(())
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "no text in UTF-8"
        raise InvalidInput("--header-file", path, f"a file that can be read ({problem})") from None
    kept = [line for line in lines if line.strip() and not line.startswith("#")]
    return _pairs(kept, ":", f"--header-file {path}", "'Name: value' in each line")


def _body(given: str | None) -> str | bytes | None:
    """The body as text if it is UTF-8, so that it is readable where the job is shown."""
    if given is None:
        return None
    content = content_of(given, "--body")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _json(given: str | None) -> Any:
    if given is None:
        return None
    try:
        value = msgspec.json.decode(content_of(given, "--json-body"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("--json-body", "***", f"JSON ({error})") from None
    return msgspec.Raw(b"null") if value is None else value


def content_of(given: str, what: str) -> bytes:
    """The given text, or the content of the file or of standard input that it names (`@FILE`, `-`)."""
    if given == "-":
        return sys.stdin.buffer.read()
    if not given.startswith("@"):
        return given.encode("utf-8", "surrogateescape")
    try:
        return Path(given[1:]).read_bytes()
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(what, given, f"a file that can be read ({problem})") from None


# -- shown -----------------------------------------------------------------------------------------------------------
def facts_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """`spec` is without secrets already."""
    yield "call", f"{spec.get('method', '?')} {spec.get('url', '?')}"
    headers = spec.get("headers")
    if isinstance(headers, Mapping):
        yield "headers", ", ".join(f"{name}: {value}" for name, value in headers.items())
    body = str(spec.get("body") or "")
    yield "body", f"{len(body) * 3 // 4} bytes" if spec.get("binary") else body
    expected = spec.get("expect")
    yield "expects", ", ".join(map(str, expected)) if isinstance(expected, list) and expected else "2xx"
    if "redirects" in spec:
        yield "redirects", f"at most {spec['redirects']}" if spec["redirects"] else "none"
