"""Users and groups of the machine, for commands that run as another user than the node."""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass

from rota.errors import InvalidInput


@dataclass(frozen=True)
class Account:
    uid: int
    gid: int
    groups: tuple[int, ...]
    environment: dict[str, str]

    @property
    def words(self) -> dict[str, int | str]:
        """In the format of the keeper. Empty if the node is not root: it can run commands only as itself."""
        if os.geteuid() != 0:
            return {}
        return {"uid": self.uid, "gid": self.gid, "groups": ",".join(map(str, self.groups))}


def account(user: str | int | None, group: str | int | None) -> Account:
    """Looks up the account; None: the node's own. A user given by number may be unknown to the machine if a group is
    given."""
    known = _user(os.geteuid() if user is None else user)
    number = known.pw_uid if known is not None else int(user or 0)
    if group is not None:
        gid = _group(group)
    elif known is not None:
        gid = known.pw_gid
    else:
        raise InvalidInput("user", user, "one that this machine knows, or a group with it")
    if os.geteuid() != 0 and (number, gid) != (os.geteuid(), os.getegid()):
        raise InvalidInput("user", user, "none: this node does not run as root, so it can't run commands as others")
    if known is None:
        return Account(number, gid, (), {})
    groups = tuple(os.getgrouplist(known.pw_name, gid))
    names = {"HOME": known.pw_dir, "USER": known.pw_name, "LOGNAME": known.pw_name, "SHELL": known.pw_shell}
    return Account(number, gid, groups, {name: value for name, value in names.items() if value})


def _user(user: str | int) -> pwd.struct_passwd | None:
    number = _number(user)
    try:
        return pwd.getpwnam(str(user)) if number is None else pwd.getpwuid(number)
    except KeyError:
        if number is None:
            raise InvalidInput("user", user, "one that the node's machine knows") from None
        return None


def _group(group: str | int) -> int:
    number = _number(group)
    try:
        return grp.getgrnam(str(group)).gr_gid if number is None else number
    except KeyError:
        raise InvalidInput("group", group, "one that the node's machine knows") from None


def _number(given: str | int) -> int | None:
    return int(given) if isinstance(given, int) or (given.isascii() and given.isdigit()) else None
