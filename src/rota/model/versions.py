"""Versions of what people edit and what has no revision: calendars, limits and settings of queues.

A version is made of the values that people set. So nothing else changes it, and edits that cancel each other out are no
edit. An edit may name the version that it replaces: it happens only if no other edit came between.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

import msgspec

from rota.model.feedback import Feedback
from rota.model.limits import Limit
from rota.model.trigger.calendars import Calendar

ABSENT = "absent"  # the version of what is not there


def calendar_version(calendar: Calendar | None) -> str:
    return ABSENT if calendar is None else _version(calendar.dates)


def limit_version(limit: Limit | None) -> str:
    return ABSENT if limit is None or limit == Limit(limit.key) else _version(limit.concurrency, limit.rate)


class QueueSettings(msgspec.Struct, frozen=True):
    """The part of a queue that people edit."""

    paused_at: datetime | None = None
    paused_by: str | None = None
    note: str = ""
    step: timedelta | None = None
    feedback: Feedback | None = None


def queue_version(settings: QueueSettings) -> str:
    return _version(settings)


def _version(*settings: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()[:16]
