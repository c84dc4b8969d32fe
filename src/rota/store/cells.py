"""Cells: where the segments that may hold a job are found.

A segment covers a range of job ids, and no index finds the ranges around an id. So times are divided into a grid with
several levels: cells of a minute, of a quarter of an hour, and so on. (Ids begin with the time.) A segment lies in the
smallest cell that holds its whole range. The segments around an id then lie in one cell of each level, and an index on
the cell finds them.
"""

from __future__ import annotations

import re

# Widths of the levels, as powers of two of milliseconds: about a minute, 17 minutes, 5 hours, 3 days, 50 days, all.
LEVELS = (16, 20, 24, 28, 32, 48)
_LEVEL = 48  # bits of a time
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def cell_around(low_job: str, high_job: str) -> int:
    """The smallest cell that holds both ids."""
    low, high = _time(low_job), _time(high_job)
    return next(_cell(level, low) for level, width in enumerate(LEVELS) if low >> width == high >> width)


def cells_of(job_id: str) -> list[int]:
    """The cells that hold this id, the smallest first; none for a text that is no id."""
    if not is_id(job_id):
        return []
    return [_cell(level, _time(job_id)) for level in range(len(LEVELS))]


def _cell(level: int, time: int) -> int:
    return level << _LEVEL | time >> LEVELS[level]


def _time(job_id: str) -> int:
    return int(job_id[:8] + job_id[9:13], 16)
