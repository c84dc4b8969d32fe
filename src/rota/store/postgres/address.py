"""Where the server is and what rota adds to the address: a schema's name."""

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


class Address(msgspec.Struct, frozen=True):
    url: str  # as the driver takes it
    schema: str = SCHEMA
    several: bool = False  # more than one host: look for the one that can be written

    @property
    def place(self) -> str:
        """For people: without the password."""
        parts = urlsplit(self.url)
        user, _, hosts = parts.netloc.rpartition("@")
        shown = f"{user.split(':')[0]}@{hosts}" if user else hosts
        return f"PostgreSQL at {shown}{parts.path}"


def address(url: str) -> Address:
    """Reads `postgresql://user@host1,host2:5433/db?schema=rota`; everything but `schema` is the driver's."""
    expected = "an address such as postgresql://user@host:5432/database"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidInput("store", without_secrets(url), expected) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise InvalidInput("store", without_secrets(url), expected)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = query.pop("schema", SCHEMA)
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", schema) or schema.startswith("pg_"):
        raise InvalidInput("schema", schema, "a name of small letters, digits and _, at most 48")
    several = "," in parts.netloc.rpartition("@")[2]
    if several:
        query.setdefault("target_session_attrs", "read-write")
    bare = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(query, quote_via=quote), ""))
    return Address(bare, schema, several)
