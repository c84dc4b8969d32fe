"""Signals: a wrong one is refused where it is made."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

import rota


@pytest.mark.parametrize("kind", [rota.Snooze, rota.RetryAfter])
@pytest.mark.parametrize("delay", ["later", "", -1, "1 h", float("nan"), None, True, timedelta(seconds=-1), 1e300])
def test_a_wrong_delay_is_refused_where_the_signal_is_made(kind: type[rota.TaskSignal], delay: object) -> None:
    name = f"delay of {kind.__name__}"
    with pytest.raises(rota.InvalidInput, match=f"^{re.escape(name)}: .* expected a duration such as") as caught:
        kind(delay)
    assert (caught.value.what, caught.value.given) == (name, delay)


@pytest.mark.parametrize("kind", [rota.Snooze, rota.RetryAfter])
@pytest.mark.parametrize("delay", ["90s", 0, 1.5, timedelta(hours=1)])
def test_a_delay_is_whatever_is_a_duration_elsewhere(kind: type[rota.Snooze | rota.RetryAfter], delay: str) -> None:
    signal = kind(delay, "not yet")
    assert (signal.delay, str(signal)) == (delay, "not yet")
    assert not isinstance(signal, rota.RotaError)
