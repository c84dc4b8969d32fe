"""`rota login` and `rota logout`: the server that the command line uses."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from getpass import getpass

from rota import opening
from rota.app_core import AppCore
from rota.cli import login_file
from rota.cli.login_file import Login
from rota.cli.show import answer
from rota.errors import InvalidInput
from rota.model.http import target
from rota.remote.hello import ServerInfo
from rota.remote.store import ServerStore

LONGEST_KEY = 1_000  # characters that are read


async def login_(args: argparse.Namespace) -> int:
    """The server is asked first: a login that does not work is not kept."""
    insecure = _check_readable(args)
    app = AppCore(server=args.url, key=_key(args), server_ca=args.ca)
    info = await ask(app)
    settings = app.settings
    place = login_file.save(Login(settings.server, settings.key, settings.server_ca, insecure))
    wire = {"server": settings.server, "user": info.user, "key": info.key, "role": info.role, "file": str(place)}
    return answer(args, wire, f"logged in to {settings.server} as {info.user} ({said(info)}); kept in {place}")


async def logout_(args: argparse.Namespace) -> int:
    """The key stays valid: `rota key revoke` ends it."""
    found = login_file.forget()
    if found is None:
        return answer(args, {"server": None}, "nobody was logged in")
    where = f" from {found.server}" if found.server else ""
    return answer(args, {"server": found.server or None}, f"logged out{where}; the key itself stays valid")


async def ask(app: AppCore) -> ServerInfo:
    store = opening.served(app.settings, app.clock, app.chance)
    assert isinstance(store, ServerStore)
    try:
        return await store.hello()
    finally:
        await store.close()


def said(info: ServerInfo) -> str:
    until = "" if info.expires_at is None else f", valid until {_time(info.expires_at)}"
    return f"key {info.key}, role {info.role}{until}"


def _time(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _check_readable(args: argparse.Namespace) -> bool:
    """A key must not leave this machine readable by an oversight, so it is not even asked for. True: it will, and the
    caller knows."""
    if not opening.is_readable(target(AppCore(server=args.url).settings.server)):
        return False
    if args.insecure:
        return True
    if sys.stdin.isatty() and not args.key_stdin:
        question = f"{args.url} is without TLS: others on the way can read the key. Go on? [y/N] "
        print(question, end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
    expected = "an address with https: others on the way could read the key; --insecure sends it all the same"
    raise InvalidInput("server", args.url, expected)


def _key(args: argparse.Namespace) -> str:
    """From standard input or typed, never from an argument, which everyone on the machine can read."""
    if args.key_stdin:
        given = sys.stdin.readline(LONGEST_KEY).strip()
    elif sys.stdin.isatty():
        given = getpass("Access key: ").strip()
    else:
        raise InvalidInput("key", "none", "the key on standard input, with --key-stdin")
    if not given:
        raise InvalidInput("key", "nothing", "an access key as `rota key add` shows it once: rota_...")
    return given
