"""`rota doctor --server`: what is wrong with the connection to a server, its certificate, the key, the clock, the
version. Each finding says what to do."""

from __future__ import annotations

import ssl
from typing import Any

from rota import opening
from rota.app_core import AppCore
from rota.cli.login import said
from rota.dialing import Unreachable
from rota.errors import RotaError, StoreDenied, WrongVersion
from rota.model.http import Target, target
from rota.model.times import DAY, SECOND, Duration, Instant, short
from rota.remote.hello import ServerInfo
from rota.remote.pool import Dialer, cure
from rota.remote.store import ServerStore
from rota.remote.versions import OURS
from rota.store.values import Finding

UNHEARD = "is `rota up` with the role api running there, and does a firewall let you through?"

SOON: Duration = 14 * DAY  # what expires within this time is named
# Rota takes the time from the server. A larger difference confuses people who compare times.
SKEW: Duration = 5 * SECOND


async def examine(app: AppCore) -> list[Finding]:
    settings = app.settings
    if not settings.server:
        return [Finding("server", False, "none is set; set ROTA_SERVER, or run `rota login URL`")]
    findings = [Finding("server", True, settings.server)]
    place = target(settings.server)
    findings += await _connection(place, settings.server_ca, app.clock.now())
    if findings[-1].ok or findings[-1].name != "connection":
        findings += await _answers(app)
    return findings


async def _connection(place: Target, ca: str, now: Instant) -> list[Finding]:
    try:
        connection = await Dialer(place, ca).dial()
    except Unreachable as error:
        return [Finding("connection", False, f"{error}; {cure(str(error), ca, UNHEARD)}")]
    except RotaError as error:
        return [Finding("connection", False, str(error))]
    try:
        secure = connection.transport and connection.transport.get_extra_info("peercert")
        if place.scheme != "https":
            far = opening.is_readable(place)
            text = "without TLS: others on the way can read the key; use https" if far else "without TLS, on loopback"
            return [Finding("connection", not far, text)]
        return [Finding("connection", True, "TLS"), _certificate(secure or {}, now)]
    finally:
        connection.abort()


def _certificate(found: dict[str, Any], now: Instant) -> Finding:
    end = int(ssl.cert_time_to_seconds(found["notAfter"])) * SECOND if "notAfter" in found else None
    if end is None:
        return Finding("certificate", True, "trusted")
    left = end - now
    text = f"trusted; it expires in {short(max(0, left) // DAY * DAY) if left >= DAY else 'less than a day'}"
    return Finding("certificate", left > SOON, text if left > SOON else f"{text}: renew it on the server")


async def _answers(app: AppCore) -> list[Finding]:
    try:
        store = opening.served(app.settings, app.clock, app.chance)
    except StoreDenied as error:
        return [Finding("key", False, str(error))]
    assert isinstance(store, ServerStore)
    try:
        info = await store.hello()
        return [_version(info), _key(info, store.now()), _clock(app.clock.now() - store.now(), store.doubt())]
    except WrongVersion as error:
        return [Finding("version", False, str(error))]
    except StoreDenied as error:
        return [Finding("key", False, str(error))]
    except RotaError as error:
        return [Finding("answer", False, str(error))]
    finally:
        await store.close()


def _version(info: ServerInfo) -> Finding:
    return Finding("version", True, f"server {info.version}, this {OURS}; its store is {info.store}")


def _key(info: ServerInfo, now: Instant) -> Finding:
    text = f"of user {info.user}: {said(info)}; it may {', '.join(info.permissions)}"
    soon = info.expires_at is not None and info.expires_at - now < SOON
    return Finding("key", not soon, f"{text}; it expires soon: ask for a new one, or rotate it" if soon else text)


def _clock(ahead: Duration, doubt: Duration) -> Finding:
    far = abs(ahead) - doubt > SKEW
    text = f"{short(abs(ahead) // 1000 * 1000)} {'ahead of' if ahead > 0 else 'behind'} the server's"
    return Finding("clock", not far, f"{text}; set the clock of this machine, or of the server" if far else text)
