"""Settings: defaults < file < environment < arguments. A wrong value or an unknown name is refused at start, with what
was expected.

`docs/settings.md` documents every field; a test compares.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec

from rota.errors import InvalidInput
from rota.hot_address import EXPECTED, hot_address
from rota.model import resources
from rota.model.access_keys import key_id
from rota.model.addresses import rules
from rota.model.http import target
from rota.model.job import variable
from rota.model.limits import word
from rota.model.times import DAY, HOUR, MINUTE, SECOND, Duration, duration, duration_between, some_time

T = TypeVar("T")
FILE = "rota.toml"
PREFIX = "ROTA_"
MIB = 1 << 20
ROLES = ("control", "worker", "api")
API_PORT = 8787
NO_SPOOL = "none"  # in place of a folder
CONFIG = f"{PREFIX}CONFIG"  # names the settings file
KEY = f"{PREFIX}KEY"
# Set for commands, which may run rota.
JOB_VARIABLES = ("ROTA_JOB", "ROTA_ATTEMPT", "ROTA_FENCE", "ROTA_PROGRESS_FD", "ROTA_LOCK", "ROTA_LOCK_FENCE")
# Variables that are not for settings: of rota's own tests, and those that Kubernetes sets in every pod for a Service
# whose name begins with `rota`.
_FOREIGN = re.compile(r"^ROTA_TEST_|_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?$")
_SERVICE = re.compile(r"(tcp|udp|sctp)://")  # the value of such a variable: ROTA_API_PORT, for a Service `rota-api`
_put_aside: dict[str, str] = {}  # variables that `put_secrets_aside` took out of the environment


class Settings(msgspec.Struct, frozen=True):
    """Each setting with its reader."""

    store: Annotated[str, _store] = "sqlite:///rota.db"
    hot: Annotated[tuple[str, ...], _hot] = ()  # addresses of a hot tier in front of the store
    hot_memory: Annotated[int, _size(MIB, 1 << 50)] = 64 * MIB  # of its news about running jobs
    server: Annotated[str, _server] = ""  # "": the store is used directly
    key: Annotated[str, _key] = ""  # an access key of the server
    server_ca: Annotated[str, _path] = ""  # "": the authorities that the system trusts
    server_insecure: Annotated[bool, _switch] = False  # nothing is said about a server without TLS
    name: Annotated[str, _word_if_any] = ""  # of the app; "": none, so it can't declare schedules
    node: Annotated[str, _word_if_any] = ""  # "": a random name
    user: Annotated[str, word] = "local"
    roles: Annotated[tuple[str, ...], _roles] = ROLES
    queues: Annotated[dict[str, int], _queues] = msgspec.field(default_factory=lambda: {"default": 16})
    grace: Annotated[Duration, duration] = 30 * SECOND
    kill_grace: Annotated[Duration, duration] = 5 * SECOND
    lease: Annotated[Duration, _lease] = 10 * SECOND
    prefetch: Annotated[int, _number(0, 10_000)] = 0
    lend: Annotated[bool, _switch] = True
    max_args: Annotated[int, _size(1, 256 * MIB)] = MIB
    max_result: Annotated[int, _size(1, 256 * MIB)] = MIB
    max_output: Annotated[int, _size(1024, 1024 * MIB)] = 16 * MIB
    spool: Annotated[str, _path_if_any] = ""  # "": beside a SQLite file, or in the user's state folder; or NO_SPOOL
    retention: Annotated[Duration, duration] = 7 * DAY
    dead_retention: Annotated[Duration, duration] = 90 * DAY
    key_retention: Annotated[Duration, duration] = 7 * DAY
    audit_retention: Annotated[Duration, duration] = 400 * DAY
    log_retention: Annotated[Duration | None, _unless_none(some_time)] = None  # None: as long as their jobs
    log_space: Annotated[int | None, _unless_none(_size(MIB, 1 << 60))] = None  # None: without a bound
    crash_limit: Annotated[int, _number(1, 1000)] = 3
    unknown_grace: Annotated[Duration, duration] = HOUR
    warm_processes: Annotated[int, _number(0, 1000)] = 0  # 0: as many as there are cores, and at least two
    pool_jobs: Annotated[int, _number(1, 1_000_000_000)] = 1000
    pool_memory: Annotated[int, _size(MIB, 1 << 50)] = 512 * MIB
    command_cpu: Annotated[Duration | None, _bound("cpu")] = None  # upper bounds for commands
    command_memory: Annotated[int | None, _bound("memory")] = None
    command_files: Annotated[int | None, _bound("files")] = None
    command_processes: Annotated[int | None, _bound("processes")] = None
    command_file_size: Annotated[int | None, _bound("file_size")] = None
    command_user: Annotated[str, _word_if_any] = ""  # "": the node's own, or the user that the order names
    command_env: Annotated[tuple[str, ...], _variables] = ()
    command_cgroup: Annotated[str, _cgroup] = ""
    notify: Annotated[bool, _switch] = True
    notify_within: Annotated[bool, _switch] = True  # also in transactions of callers
    api_host: Annotated[str, _host] = "127.0.0.1"
    api_port: Annotated[int | None, _port] = None  # None: API_PORT, or no API if that is taken
    api_hosts: Annotated[tuple[str, ...], _hosts] = ()
    api_tls_cert: Annotated[str, _path_if_any] = ""
    api_tls_key: Annotated[str, _path_if_any] = ""
    api_proxies: Annotated[tuple[str, ...], _networks] = ()
    api_max_body: Annotated[int, _size(1024, 1024 * MIB)] = 16 * MIB
    api_connections: Annotated[int, _number(10, 1_000_000)] = 10_000
    http_allow: Annotated[tuple[str, ...], _addresses] = ()
    http_deny: Annotated[tuple[str, ...], _addresses] = ()
    http_timeout: Annotated[Duration, some_time] = 5 * MINUTE
    http_max_body: Annotated[int, _size(1, 1024 * MIB)] = 10 * MIB

    @property
    def place(self) -> str:
        """The address of the server, or of the store without passwords."""
        return self.server or without_secrets(self.store)

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        shown |= {"store": without_secrets(self.store), "key": "***" if self.key else ""}
        shown["hot"] = tuple(hot_address(url).place for url in self.hot)
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def without_secrets(url: str) -> str:
    """An address without its passwords, for messages and logs."""
    url = re.sub(r"(//[^:/@]*):[^@/]*@", r"\1:***@", url)
    return re.sub(r"([?&][a-z_]*password=)[^&]*", r"\1***", url)


def variables() -> dict[str, str]:
    """The environment of this process, including the variables put aside."""
    return {**_put_aside, **os.environ}


def put_secrets_aside() -> None:
    """Takes rota's own secrets out of the environment, so that child processes don't inherit them; `load` still finds
    them. Other software's variables stay: functions may need them."""
    for name in _variable_names().keys() & os.environ.keys():
        if name == KEY or without_secrets(os.environ[name]) != os.environ[name]:
            _put_aside[name] = os.environ.pop(name)


def load(arguments: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """An argument that is None counts as not given, and so does an empty variable."""
    environment = variables() if environment is None else environment
    file = environment.get(CONFIG) or FILE
    given: dict[str, tuple[Any, str]] = {}  # with the place that names it
    for source in (
        {name: (value, f"{name} in {file}") for name, value in _from_file(environment.get(CONFIG)).items()},
        {name: (value, _variable(name)) for name, value in _from_environment(environment).items()},
        {name: (value, name) for name, value in (arguments or {}).items() if value is not None},
    ):
        given = _over(given, source)
    settings = Settings(**{name: _read(name, value, place) for name, (value, place) in given.items()})
    if settings.server and settings.hot:
        shown = ",".join(hot_address(url).place for url in settings.hot)
        raise InvalidInput(given["hot"][1], shown, "nothing beside a server: a hot tier belongs to the nodes there")
    return settings


def _over(weaker: dict[str, tuple[Any, str]], stronger: dict[str, tuple[Any, str]]) -> dict[str, tuple[Any, str]]:
    """The strongest place that names a store or a server decides between them. The key goes with the server; the store
    stays known beside it, for its first key may be used on loopback."""
    named = [name for name in ("store", "server") if name in stronger and stronger[name][0] != ""]
    if len(named) == 2:
        (store, place), (server, other) = stronger["store"], stronger["server"]
        given = f"{without_secrets(str(store))} and {server}"
        raise InvalidInput(f"{place} and {other}", given, "one of them: the store itself, or a server in front of it")
    dropped = {"store": ("server", "key", "server_ca", "server_insecure"), "server": ("hot",)}
    gone = dropped[named[0]] if named else ()
    return {name: value for name, value in weaker.items() if name not in gone} | stronger


def names_place(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the environment or the file names a store or a server."""
    environment = variables() if environment is None else environment
    found = _from_file(environment.get(CONFIG)) | _from_environment(environment)
    return bool(found.get("store") or found.get("server"))


def _from_file(named: str | None) -> dict[str, Any]:
    path = Path(named or FILE)
    if not path.exists():
        if named:
            raise InvalidInput(CONFIG, named, "the path of a file that exists")
        return {}
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(str(path), str(error), "a readable TOML file") from None
    for name in table:
        if name not in _READERS:
            raise InvalidInput(f"setting in {path}", name, f"one of {', '.join(sorted(_READERS))}")
    return table


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    settings = _variable_names()
    found: dict[str, Any] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or not value:
            continue
        if name in settings and not _SERVICE.match(value):
            found[settings[name]] = value
        elif name != CONFIG and name not in JOB_VARIABLES and not _FOREIGN.search(name):
            raise _misspelt(name)
    return found


def _variable_names() -> dict[str, str]:
    return {_variable(name): name for name in _READERS}


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


def _misspelt(name: str) -> InvalidInput:
    """The value stays out of the message: it may be a secret."""
    known = sorted(["CONFIG", *(setting.upper() for setting in _READERS)])
    close = difflib.get_close_matches(name.removeprefix(PREFIX).upper(), known, n=1)
    hint = f"did you mean {PREFIX}{close[0]}?" if close else "docs/settings.md lists them"
    expected = f"the name of a setting: {hint}"
    return InvalidInput("environment variable", name, expected)


def _read(name: str, value: Any, place: str) -> Any:
    """`place`: where the value was given, for messages: `lease in rota.toml`, `ROTA_LEASE`, or the argument `lease`."""
    if name not in _READERS:
        raise InvalidInput("setting", name, f"one of {', '.join(sorted(_READERS))}")
    return _READERS[name](value, place)


def _store(value: Any, name: str) -> str:
    kinds = ("sqlite:///", "postgresql://", "postgres://")
    if not isinstance(value, str) or not value.startswith(kinds) or value in kinds:
        given = without_secrets(value) if isinstance(value, str) else value
        raise InvalidInput(name, given, "an address such as sqlite:///rota.db or postgresql://user@host/database")
    return value


def _hot(value: Any, name: str) -> tuple[str, ...]:
    """`redis://a,redis://b`, or a list of such."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(url, str) for url in given):
        raise InvalidInput(name, value, EXPECTED)
    found = [hot_address(url.strip(), name) for url in given if url.strip()]
    places = [address.place for address in found]
    if twice := next((place for place in places if places.count(place) > 1), None):
        raise InvalidInput(name, twice, "each address once")
    return tuple(url.strip() for url in given if url.strip())


def _server(value: Any, name: str) -> str:
    """Without a slash at its end."""
    if value == "":
        return ""
    try:
        target(value)
    except InvalidInput as wrong:
        raise InvalidInput(name, wrong.given, "an address such as https://rota.example.com:8787") from None
    if "?" in value or "#" in value:
        raise InvalidInput(name, value, "an address such as https://rota.example.com:8787")
    return str(value).rstrip("/")


def _key(value: Any, name: str) -> str:
    if value != "":
        key_id(value)
    return str(value)


def _path(value: Any, name: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise InvalidInput(name, value, "the path of a file")
    return value


def _word_if_any(value: Any, name: str) -> str:
    return word(value, name) if value != "" else ""


def _roles(value: Any, name: str) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    roles = tuple(part.strip() for part in parts if isinstance(part, str)) if isinstance(parts, list | tuple) else ()
    if not roles or len(roles) != len(parts) or any(role not in ROLES for role in roles):
        raise InvalidInput(name, value, f"a list of {', '.join(ROLES)}")
    return roles


def _queues(value: Any, name: str) -> dict[str, int]:
    """`default:8,mail:2`, or a table of numbers."""
    expected = "queues with their slots such as default:8,mail:2"
    if isinstance(value, str):
        pairs: list[tuple[str, Any]] = [part.partition(":")[::2] for part in value.split(",")]
    elif isinstance(value, dict):
        pairs = list(value.items())
    else:
        raise InvalidInput(name, value, expected)
    queues: dict[str, int] = {}
    for queue, slots in pairs:
        try:
            count = int(slots) if isinstance(slots, str | int) and not isinstance(slots, bool) else 0
        except ValueError:
            raise InvalidInput(name, value, expected) from None
        if not 1 <= count <= 10_000 or queue.strip() in queues:
            raise InvalidInput(name, value, f"{expected}, each once, with 1 to 10000 slots")
        queues[word(queue.strip(), name)] = count
    return queues


def _lease(value: Any, name: str) -> Duration:
    return duration_between(value, name, 5 * SECOND, 5 * MINUTE)


def _number(least: int, most: int) -> Callable[[Any, str], int]:
    def read(value: Any, name: str) -> int:
        try:
            number = int(value) if not isinstance(value, bool | float) else -1
        except (TypeError, ValueError):
            number = -1
        if not least <= number <= most:
            raise InvalidInput(name, value, f"a whole number from {least} to {most}")
        return number

    return read


def _size(least: int, most: int) -> Callable[[Any, str], int]:
    """Bytes, as a number or as `16MiB`."""
    return lambda value, name: resources.size(value, name, least, most)


def _addresses(value: Any, name: str) -> tuple[str, ...]:
    """`10.0.0.0/8,*.example.com`, or a list of such."""
    return tuple(rule.text for rule in rules(name, value))


def _host(value: Any, name: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.:%-]{1,253}", value):
        raise InvalidInput(name, value, "a host name or an address such as 127.0.0.1")
    return value


def _hosts(value: Any, name: str) -> tuple[str, ...]:
    given = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise InvalidInput(name, value, "host names such as rota.example.com,jobs")
    return tuple(_host(part, name) for part in given if part != "")


def _port(value: Any, name: str) -> int | None:
    return None if value == "none" else _number(0, 65_535)(value, name)


def _path_if_any(value: Any, name: str) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or "\0" in text:
        raise InvalidInput(name, value, "the path of a file")
    return text


def _networks(value: Any, name: str) -> tuple[str, ...]:
    found = rules(name, value)
    for rule in found:
        if rule.name is not None:
            raise InvalidInput(name, rule.text, "addresses or networks such as 10.0.0.5,10.1.0.0/16, or private")
    return tuple(str(network) for rule in found for network in rule.networks)


def _switch(value: Any, name: str) -> bool:
    words = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
    chosen = value if isinstance(value, bool) else words.get(str(value).lower())
    if chosen is None:
        raise InvalidInput(name, value, "true or false")
    return chosen


def _unless_none(reader: Callable[[Any, str], T]) -> Callable[[Any, str], T | None]:
    """`none` removes what the file has set."""
    return lambda value, name: None if value == "none" else reader(value, name)


def _bound(part: str) -> Callable[[Any, str], int | None]:
    return _unless_none(resources.READERS[part])


def _variables(value: Any, name: str) -> tuple[str, ...]:
    given = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise InvalidInput(name, value, "names of environment variables such as AWS_REGION,PROXY")
    return tuple(variable(part, name) for part in given if part != "")


def _cgroup(value: Any, name: str) -> str:
    if not isinstance(value, str) or (value and not value.startswith("/")) or "\0" in value:
        raise InvalidInput(name, value, "the folder of a control group such as /sys/fs/cgroup/rota")
    return value.rstrip("/")


_READERS: dict[str, Callable[[Any, str], Any]] = {
    name: kind.__metadata__[0] for name, kind in get_type_hints(Settings, include_extras=True).items()
}
