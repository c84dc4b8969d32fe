"""Answers to commands and HTTP calls, given by a test instead of a process or a server.

A fake replaces the process, or the wire. What the exit code or the answer means for the job is decided by the code that
real nodes use: fatal exit codes, expected statuses, redirects, `Retry-After`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from rota.errors import InvalidInput, NotFaked
from rota.model import http
from rota.model.http import Target, shown_url
from rota.model.job import CommandSpec
from rota.tasks.encoding import to_json

# Bytes of a fake's JSON: more than any result or output may have.
LARGEST = 64 << 20


class RecordedRequest(msgspec.Struct, frozen=True):
    """A request that a fake has answered."""

    method: str
    url: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class CommandFake:
    """Answers commands that begin with its words. `calls` has the commands it answered."""

    def __init__(self, words: Sequence[str], exit_code: int, stdout: bytes, stderr: bytes, times: int | None) -> None:
        self.words, self.exit_code, self.stdout, self.stderr, self._times = words, exit_code, stdout, stderr, times
        self.calls: list[CommandSpec] = []

    def fits(self, argv: Sequence[str]) -> bool:
        program, *rest = self.words
        named = argv[0] == program or argv[0].rpartition("/")[2] == program
        return self.left and named and list(argv[1 : len(self.words)]) == rest

    @property
    def left(self) -> bool:
        return self._times is None or len(self.calls) < self._times


class HttpFake:
    """Answers requests of its method and URL. `calls` has the requests it answered."""

    def __init__(
        self, method: str | None, url: str, head: tuple[int, dict[str, str]], body: bytes, error: str | None,
        times: int | None,
    ) -> None:  # fmt: skip
        self.status, self.headers = head
        self.method, self.body, self.error, self._times = method, body, error, times
        self.calls: list[RecordedRequest] = []
        text = url if "*" in url else address(http.target(url))
        self._any_query = "?" not in url
        self._pattern = re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)

    def fits(self, method: str, url: str) -> bool:
        if not self.left or self.method not in (None, method):
            return False
        return bool(self._pattern.fullmatch(url.partition("?")[0] if self._any_query else url))

    @property
    def left(self) -> bool:
        return self._times is None or len(self.calls) < self._times


Fake = TypeVar("Fake", CommandFake, HttpFake)


class Fakes:
    """The fakes of one harness. The newest that fits answers."""

    def __init__(self) -> None:
        self._commands: list[CommandFake] = []
        self._calls: list[HttpFake] = []

    def add_command(
        self, command: str | Sequence[str], exit_code: Any, stdout: object, stderr: object, times: object
    ) -> CommandFake:
        words: Any = [command] if isinstance(command, str) else command
        if not isinstance(words, list | tuple) or not words or not all(isinstance(w, str) and w for w in words):
            raise InvalidInput("command", command, "the name of a program, or a list of the first words of a command")
        if isinstance(exit_code, bool) or not isinstance(exit_code, int) or not 0 <= exit_code <= 255:
            raise InvalidInput("exit_code", exit_code, "a whole number from 0 to 255")
        texts = _bytes("stdout", stdout), _bytes("stderr", stderr)
        return _kept(self._commands, CommandFake(words, exit_code, *texts, _times(times)))

    def add_call(
        self, url: Any, method: Any, status: Any, json: Any, body: object, headers: object, error: Any, times: object
    ) -> HttpFake:
        if not isinstance(url, str) or not url.startswith(("http://", "https://", "*")):
            raise InvalidInput("url", url, "a URL such as https://example.com/hook; * stands for any characters")
        if method is not None and (not isinstance(method, str) or method != method.upper() or not method.isalpha()):
            raise InvalidInput("method", method, "a method in capitals such as POST")
        if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
            raise InvalidInput("status", status, "a status of HTTP from 200 to 599")
        if error is not None and not isinstance(error, str):
            raise InvalidInput("error", error, "a text that says why the server can't be reached")
        if json is not None and body is not None:
            raise InvalidInput("body and json", "both", "one of them")
        fields = _headers(headers)
        if json is not None:
            body = to_json(json, LARGEST, "json")
            fields.setdefault("content-type", "application/json")
        given = b"" if body is None else _bytes("body", body)
        return _kept(self._calls, HttpFake(method, url, (status, fields), given, error, _times(times)))

    def for_command(self, argv: Sequence[str]) -> CommandFake | None:
        return _newest(self._commands, lambda fake: fake.fits(argv))

    def for_call(self, method: str, url: str) -> HttpFake | None:
        return _newest(self._calls, lambda fake: fake.fits(method, url))


def address(target: Target) -> str:
    """A URL in one form, so that `https://example.com` and `https://EXAMPLE.com:443/` are the same."""
    return f"{target.scheme}://{target.authority}{target.path}"


def command_not_faked(argv: Sequence[str]) -> NotFaked:
    program = argv[0].rpartition("/")[2]
    return NotFaked(f"command {list(argv)}", f"fake_command({program!r}, stdout=...)", "allow_commands")


def call_not_faked(method: str, url: str) -> NotFaked:
    shown = shown_url(url)
    return NotFaked(f"{method} {shown}", f"fake_http({shown!r}, status=200, json=...)", "allow_http")


def _kept(fakes: list[Fake], fake: Fake) -> Fake:
    fakes.append(fake)
    return fake


def _newest(fakes: Sequence[Fake], fits: Callable[[Fake], bool]) -> Fake | None:
    return next((fake for fake in reversed(fakes) if fits(fake)), None)


def _times(given: Any) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given > 0):
        return given
    raise InvalidInput("times", given, "how often it answers: a whole number from 1, or None")


def _bytes(what: str, given: object) -> bytes:
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes):
        return given
    raise InvalidInput(what, given, "a text, or bytes")


def _headers(given: object) -> dict[str, str]:
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInput("headers", given, "a mapping of names to texts")
    for name, value in (given or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput("headers", given, "a mapping of names to texts")
    return {name.lower(): value for name, value in (given or {}).items()}
