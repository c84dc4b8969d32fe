"""What a server of the hot tier answers when it can't do something, in words for the person who can mend it."""

from __future__ import annotations

from rota.hot.lane import HotAway, HotRefused

FULL = "its memory is full (maxmemory): raise maxmemory, or give the hot tier a server of its own"
# By the first word of the answer. These pass by themselves, so the server counts as away meanwhile.
_AWAY = {
    "LOADING": "it is loading its data",
    "BUSY": "it is busy with a long script",
    "MASTERDOWN": "it is a replica that has lost its primary",
    "TRYAGAIN": "it is moving its data",
}
_REFUSED = {
    "OOM": FULL,
    "READONLY": "it is a read-only replica; name the primary",
    "MISCONF": "it refuses writes because it can't save its data to disk: mend its disk, or switch saving off there",
    "NOREPLICAS": "it refuses writes because it has too few replicas (min-replicas-to-write)",
    "NOAUTH": "it needs a password: redis://user:password@host, or redis://:password@host for its default user",
    "WRONGPASS": "the user name or the password is wrong",
    "NOPERM": "the user may not do that there; it needs all commands on keys rota:* and channels rota:*",
    "WRONGTYPE": "a key below rota: holds something else than rota keeps there; delete it",
    "CLUSTERDOWN": "it is part of a cluster; single servers are needed",
    "MOVED": "it is part of a cluster; single servers are needed",
    "CROSSSLOT": "it is part of a cluster; single servers are needed",
    "DENIED": "it runs in protected mode: set a password there, or bind it to an address of its own",
}
_LONGEST = 200
OWNER = "rota:owner"  # the key with the id of the store that a server serves


def problem(place: str, answer: Exception) -> HotAway | HotRefused:
    """The error for an answer of the server that is one."""
    text = " ".join(str(answer).split())
    code = text.split(" ", 1)[0].lstrip("-")
    if text.startswith("ERR max number of clients"):
        return HotAway(f"{place}: it has no connection left (maxclients)")
    if code in _AWAY:
        return HotAway(f"{place}: {_AWAY[code]}")
    if code in _REFUSED:
        detail = f" ({_shown(text)})" if code == "NOPERM" else ""
        return HotRefused(f"{place}: {_REFUSED[code]}{detail}")
    return HotRefused(f"{place}: it refused with {_shown(text)}")


def check_owner(place: str, owner: bytes | None, store: str) -> None:
    """`owner`: what stood in the key."""
    if owner is not None and owner != store.encode():
        database = place.rpartition("/")[2]
        other = "".join(letter if letter.isalnum() else "?" for letter in owner[:40].decode("ascii", "replace"))
        raise HotRefused(
            f"{place}: it serves another store ({other}): choose another server or database number, or, if that "
            f"store does not use it any more, free it with: redis-cli -n {database} DEL {OWNER}"
        )


def _shown(text: str) -> str:
    """In one line, whatever the server sent."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    return clean if len(clean) <= _LONGEST else clean[:_LONGEST] + "…"
