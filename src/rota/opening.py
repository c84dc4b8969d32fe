"""Opens what the settings name: the store, or the server in front of one, and the socket of the HTTP API."""

from __future__ import annotations

import importlib
import logging
import socket
from functools import lru_cache
from ipaddress import ip_address
from types import ModuleType

from rota.clock import Chance, Clock
from rota.config import API_PORT, Settings
from rota.errors import InvalidInput, SchemaMissing, StoreDenied, StoreError
from rota.model.http import Target, target
from rota.model.principal import Principal, with_address
from rota.store.base import Store
from rota.store.sqlite import SqliteStore
from rota.telemetry.events import ApiNotServed, Bus

_log = logging.getLogger("rota.server")
# In use from when the store is opened.
SETTINGS = (
    "store", "server", "key", "server_ca", "server_insecure", "user", "key_retention", "notify", "hot", "hot_memory",
)  # fmt: skip


def make_store(settings: Settings, clock: Clock, chance: Chance, inline: bool) -> Store:
    """`inline`: for tests, on the caller's thread and by its clock."""
    if settings.server:
        return served(settings, clock, chance)
    store = _bare_store(settings, clock, chance, inline)
    return _behind_hot_tier(store, settings, clock, chance) if settings.hot else store


def _bare_store(settings: Settings, clock: Clock, chance: Chance, inline: bool) -> Store:
    url, life = settings.store, settings.key_retention
    if url.startswith("sqlite:///"):
        return SqliteStore(url.removeprefix("sqlite:///"), clock, chance, inline=inline, key_life=life)
    store: Store = postgres().PostgresStore(
        url, clock, chance, key_life=life, notify=settings.notify, server_time=not inline
    )
    return store


def _behind_hot_tier(store: Store, settings: Settings, clock: Clock, chance: Chance) -> Store:
    """Its driver is installed only by those who use it."""
    try:
        from rota.hot.redis import RedisLane
    except ModuleNotFoundError as error:
        raise StoreError(f"a hot tier needs {error.name}; install it with `pip install 'rota[hot]'`") from None
    from rota.hot.store import HotStore

    urls, memory = settings.hot, settings.hot_memory
    return HotStore.around(store, lambda: [RedisLane(url) for url in urls], clock, chance, memory)


def served(settings: Settings, clock: Clock, chance: Chance) -> Store:
    """A store whose verbs are calls to the server."""
    from rota.clients.key_files import kept_key
    from rota.remote.store import server_store  # needed by those who use a server

    place = target(settings.server)
    key = settings.key or (kept_key(settings.store) if is_loopback(place.host) else None)
    if not key:
        cure = "set ROTA_KEY, or run `rota login`"
        raise StoreDenied(f"the server at {settings.server} needs an access key, and none is set; {cure}")
    if is_readable(place) and not settings.server_insecure:
        _warn_readable(settings.server)
    return server_store(place, key, clock, chance, ca=settings.server_ca)


def is_readable(place: Target) -> bool:
    """Whether others on the way could read what is sent to this server, the key too."""
    return place.scheme != "https" and not is_loopback(place.host)


@lru_cache(maxsize=100)  # once in a process, however many stores it opens
def _warn_readable(server: str) -> None:
    _log.warning("rota: %s is without TLS: others on the way can read the access key; use https", server)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def principal(store: Store, settings: Settings) -> Principal:
    """On whose behalf an open store is used: the user of the settings, who has the store's address; of a server, the
    user of the key."""
    return getattr(store, "principal", None) or with_address(settings.user)


def in_memory(settings: Settings) -> bool:
    return not settings.server and settings.store == "sqlite:///:memory:"


def postgres() -> ModuleType:
    """The package with the PostgreSQL store. Its driver is installed only by those who use it."""
    try:
        return importlib.import_module("rota.store.postgres")
    except ModuleNotFoundError as error:
        raise StoreError(f"PostgreSQL needs {error.name}; install it with `pip install 'rota[postgres]'`") from None


def check_roles(settings: Settings) -> None:
    """Refuses roles that a node through a server can't have."""
    if settings.server and settings.roles != ("worker",):
        expected = "worker: a node that joins through a server has this role only (--roles worker)"
        raise InvalidInput("roles", ",".join(settings.roles), expected)


async def open_or_create(store: Store) -> None:
    """Migrates a store that is new. An old one is left to `rota migrate`: other processes may be using it."""
    try:
        await store.open()
    except SchemaMissing as missing:
        if missing.found:
            raise
        await store.migrate()
        await store.open()


def api_socket(settings: Settings, bus: Bus, asked: bool) -> socket.socket | None:
    """The socket of a node with the role `api`, if it was asked for. None: the node goes on without that role."""
    if asked and "api" in settings.roles:
        from rota.api.listening import PortTaken, listen

        try:
            return listen(settings)
        except PortTaken:
            if settings.roles == ("api",):
                raise InvalidInput("api_port", API_PORT, "a port that no other program listens on") from None
            bus.emit(ApiNotServed(API_PORT))
    elif settings.roles == ("api",):
        raise InvalidInput("roles", "api", "another role too: only `rota up` and `app.node(api=True)` serve the API")
    return None
