"""The address of the server, to which rota adds the name of a schema."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from rota.config import without_secrets
from rota.errors import InvalidInput

SCHEMA = "rota"
# No sequence scans, hash or merge joins: every statement of the hot path names its rows by an index, and the statistics
# of a table that fills and empties all the time are always wrong. Measured: a finish is five times as fast. And with
# one possible plan there is no need to look for it each time: a claim takes 0.9 ms instead of 1.4
# (docs/measurements.md).
STEADY_PLANS = {
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}


_RESERVED = re.compile(
    "all|analyse|analyze|and|any|array|as|asc|asymmetric|authorization|binary|both|case|cast|check|collate|collation|"
    "column|concurrently|constraint|create|cross|current_[a-z]+|default|deferrable|desc|distinct|do|else|end|except|"
    "false|fetch|for|foreign|freeze|from|full|grant|group|having|ilike|in|initially|inner|intersect|into|is|isnull|"
    "join|lateral|leading|left|like|limit|localtime|localtimestamp|natural|not|notnull|null|offset|on|only|or|order|"
    "outer|overlaps|placing|primary|references|returning|right|select|session_user|similar|some|symmetric|system_user|"
    "table|tablesample|then|to|trailing|true|union|unique|user|using|variadic|verbose|when|where|window|with"
)
_PORT = r"(:([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5]))?"
_HOST = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^:/@\[\]\s]*)" + _PORT, re.ASCII)


class Address(msgspec.Struct, frozen=True):
    url: str  # as the driver takes it
    schema: str = SCHEMA

    @property
    def place(self) -> str:
        """For people: without the password."""
        parts = urlsplit(self.url)
        user, _, hosts = parts.netloc.rpartition("@")
        shown = f"{user.split(':')[0]}@{hosts}" if user else hosts
        return f"PostgreSQL at {shown}{parts.path}"

    @property
    def urls(self) -> list[str]:
        """One URL per host: given several hosts, the driver would wait for a silent one and never try the next."""
        parts = urlsplit(self.url)
        user, at, hosts = parts.netloc.rpartition("@")
        return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in hosts.split(",")]


def address(url: str) -> Address:
    """Reads `postgresql://user@host1,host2:5433/db?schema=rota`; all parts but `schema` go to the driver."""
    expected = "an address such as postgresql://user@host:5432/database"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidInput("store", without_secrets(url), expected) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise InvalidInput("store", without_secrets(url), expected)
    if not all(_HOST.fullmatch(host) for host in parts.netloc.rpartition("@")[2].split(",")) or "@" in parts.path:
        # Not shown: it may be a part of a password with / ? # or @ in it.
        raise InvalidInput("store", "postgresql://...", expected + "; in passwords write / ? # @ as %2F %3F %23 %40")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = query.pop("schema", SCHEMA)
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", schema) or schema.startswith("pg_") or _RESERVED.fullmatch(schema):
        raise InvalidInput("schema", schema, "a name of small letters, digits and _, at most 48, and no word of SQL")
    if "," in parts.netloc.rpartition("@")[2]:  # several hosts: look for the one that can be written
        query.setdefault("target_session_attrs", "read-write")
    bare = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(query, quote_via=quote), ""))
    return Address(bare, schema)
