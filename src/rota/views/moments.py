"""Times and durations in views."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from rota.model.times import Duration, Instant, iso, short

Moment = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
Period = Annotated[str, msgspec.Meta(description="a duration such as 90s, 5m or 1h30m")]


def moment(given: Instant | datetime | None) -> Moment | None:
    return None if given is None else iso(given)


def period(given: Duration | timedelta | None) -> Period | None:
    return None if given is None else short(given)
