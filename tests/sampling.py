"""Which cases of a matrix `make test` runs.

A test with `@pytest.mark.sampled` runs its first case there, and with `sampled(step)` each case whose number is a
multiple of `step`. The other cases are marked slow, so `make test-slow` runs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest


def leave_to_the_slow(items: Iterable[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None or item.get_closest_marker("slow"):
            continue
        matrix = item.nodeid.partition("[")[0]
        if seen[matrix] % sampled.args[0] if sampled.args else seen[matrix]:
            item.add_marker(pytest.mark.slow)
        seen[matrix] += 1
