"""What the hot tier of this process has done so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    added: int = 0  # jobs to the heap
    promoted: int = 0  # by the heap
    swept: int = 0  # jobs that the heap had missed: found by the sweep
    refills: int = 0
    fallbacks: int = 0  # promotions without the heap, since it was away or not filled
    wakes_sent: int = 0
    wakes_heard: int = 0
    wakes_by_store: int = 0  # sent by the store, since the hot tier was away or somebody did not hear it
    notes_behind: int = 0  # reports of progress that were not written to the store at once
    status_hits: int = 0  # running jobs that were shown without the store
    status_misses: int = 0
