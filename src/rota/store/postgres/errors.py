"""Translates errors of PostgreSQL and of the connection into errors of rota."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from rota import errors

# A retry may help: the server starts, stops or is full, or there was a deadlock.
_PASSING = ("08", "40", "53", "55P03", "57014", "57P", "25P03", "25P04", "58")
_FULL = ("53100",)
_READ_ONLY = ("25006",)
_BAD_TEXT = ("22000", "22021", "22P05")
# The values of a row break a limit or a constraint. The caller may set the row aside, so this must not list codes that
# a server in trouble gives for any row.
_BAD_ROW = ("22001", "22003", "23502", "54")
_BROKEN_RULE = "23514"
_LIMIT = "54000"
# Source files that use the code of a too large row for limits of the server: out of transaction ids or blocks.
_OWN_LIMITS = ("varsup.c", "multixact.c", "md.c", "slru.c", "bufmgr.c")
_DENIED = ("28", "3D000", "42501", "3F000")


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turns errors of the driver into errors of rota, with a text for the person who must act."""
    try:
        yield
    except errors.RotaError:
        raise
    except asyncpg.PostgresError as error:
        raise _of_server(place, error) from None
    except (asyncpg.DataError, UnicodeEncodeError) as error:
        raise errors.InvalidInput("text", str(error), "text that UTF-8 can carry") from None
    except TimeoutError:
        raise errors.StoreUnavailable(f"{place} does not answer") from None
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, EOFError) as error:
        raise errors.StoreUnavailable(f"{place} can't be reached: {_first_line(error)}") from None


def _of_server(place: str, error: asyncpg.PostgresError) -> errors.RotaError:
    code, text = error.sqlstate or "", _first_line(error)
    if code.startswith(_FULL):
        return errors.StoreFull(f"no space left for {place}; nothing was written")
    if code.startswith(_READ_ONLY):
        return errors.StoreReadOnly(f"{place} can't be written at present: {text}")
    if code.startswith(_BAD_TEXT):
        return errors.InvalidInput("text", text, "text that UTF-8 can carry, without NUL characters")
    if (code.startswith(_BAD_ROW) and not _servers_own(error)) or (code == _BROKEN_RULE and error.constraint_name):
        return errors.InvalidInput("row", text, "values that the tables allow")
    # 23514 without a constraint name: no partition exists for rows of that time.
    if code.startswith(_PASSING) or code in (_BROKEN_RULE, _LIMIT):
        return errors.StoreUnavailable(f"{place}: {text}")
    if code.startswith(_DENIED):
        return errors.StoreDenied(f"{place}: {text}; check the address, the user and its rights")
    return errors.StoreError(f"{place} refused a call: {text}")


def _servers_own(error: asyncpg.PostgresError) -> bool:
    return error.sqlstate == _LIMIT and error.server_source_filename in _OWN_LIMITS


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def shut_out(error: BaseException) -> bool:
    """The server runs but refuses new connections: wrong password, no free slot, expired certificate. Open connections
    stay usable."""
    if isinstance(error, asyncpg.PostgresError):
        return not refused(error)
    return isinstance(error, ssl.SSLError | asyncpg.InterfaceError)


def broken(error: BaseException) -> bool:
    """The connection is unusable after this error, or leads to a read-only server."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith((*_READ_ONLY, "08", "57P"))
    return isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError | EOFError)


def elsewhere(error: BaseException) -> bool:
    """The server is read-only, going down or unreachable: drop the pool's other connections to it too."""
    code = error.sqlstate or "" if isinstance(error, asyncpg.PostgresError) else ""
    return code.startswith((*_READ_ONLY, "08", "57P02", "57P03"))


def refused(error: BaseException) -> bool:
    """The server is down, starting or stopping, or none of several hosts is writable."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(("57P01", "57P02", "57P03"))
    return isinstance(error, ConnectionRefusedError | asyncpg.TargetServerAttributeNotMatched)
