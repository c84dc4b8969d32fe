"""The login of the command line: a server and a key, in a file that only its user may read.

The login is for the verbs of clients. `rota up` and programs name their store or server themselves: a node must not
follow what somebody has typed on its machine.
"""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec

from rota.clients.key_files import configuration_folder, keep
from rota.config import names_place, variables
from rota.errors import InvalidInput

NAME = "login.json"


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`insecure`: its user knows that others can read the key on its way."""

    server: str
    key: str
    server_ca: str = ""
    insecure: bool = False

    def __repr__(self) -> str:
        return f"Login(server={self.server!r})"


def path() -> Path:
    return configuration_folder(variables()) / NAME


def save(login: Login) -> Path:
    place = path()
    keep(place, msgspec.json.encode(login).decode())
    return place


def forget() -> Login | None:
    """Removes the file; returns what it held."""
    try:
        found = load()
    except InvalidInput:
        found = Login("", "")
    path().unlink(missing_ok=True)
    return found


def load() -> Login | None:
    """None: nobody has logged in."""
    place = path()
    try:
        mode = place.stat().st_mode
        text = place.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidInput("login", str(place), f"a file that can be read ({error.strerror})") from None
    if stat.S_IMODE(mode) & 0o077:
        raise InvalidInput("login", str(place), "a file that only its user may read: chmod 600, or `rota login` again")
    try:
        return msgspec.json.decode(text, type=Login)
    except msgspec.MsgspecError:
        raise InvalidInput("login", str(place), "a file of `rota login`; log in again, or `rota logout`") from None


def chosen(store: str | None) -> dict[str, str | bool | None]:
    """What the login adds to the settings of a client: the server, if nothing else names one or a store; or the key
    of a server that is named without one. `store`: of the option."""
    if store is not None:
        return {"store": store}
    if names_place():
        named = variables().get("ROTA_SERVER", "").rstrip("/")
        login = load() if named and not variables().get("ROTA_KEY") else None
        return _access(login) if login is not None and login.server == named else {}
    login = load()
    return {} if login is None else {"server": login.server, "server_ca": login.server_ca or None, **_access(login)}


def _access(login: Login) -> dict[str, str | bool | None]:
    return {"key": login.key, "server_insecure": login.insecure or None}
