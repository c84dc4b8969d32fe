"""The program that a node becomes to say its last word: what it is given, and what others could see of that."""

from __future__ import annotations

import os
import socket
from typing import Any
from unittest.mock import patch

import pytest

from rota import config
from rota.cli import last_writes
from rota.config import Settings

SECRET = "postgresql://me:s3cret@host/database"


class Executed(Exception):
    pass


def test_the_address_of_the_store_is_neither_an_argument_nor_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []

    def execve(*arguments: Any) -> None:
        channel = int(arguments[1][-1])
        given.extend((*arguments, os.get_inheritable(channel), os.dup(channel)))
        raise Executed

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(config, "_put_aside", {})
    monkeypatch.setenv("PGPASSWORD", "t0psecret")
    reader, guard = os.pipe()
    with pytest.raises(Executed):
        last_writes.become(Settings(store=SECRET), "incarnation", [guard])
    _, argv, environment, inheritable, channel = given
    assert argv[-2] == "incarnation"
    assert "s3cret" not in str(argv) + str(environment)
    assert "t0psecret" not in str(environment)
    assert inheritable
    assert os.get_inheritable(guard)
    for fd in (reader, guard):
        os.close(fd)
    with patch.dict(os.environ, clear=True), socket.socket(fileno=channel) as theirs:
        last_writes.prepare(theirs)
        assert os.environ["PGPASSWORD"] == "t0psecret"
        assert "ROTA_STORE" not in os.environ
        assert config.load().store == SECRET
