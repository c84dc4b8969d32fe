"""Queries as callers write them: the condition that a text says, and the completion of a text that is being typed."""

from __future__ import annotations

from contextlib import suppress

from rota.clients.jobs import JobsClient
from rota.errors import InvalidQuery
from rota.model.query.complete import MOST, Completion, complete, with_stored
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.model.query.tree import EVERYTHING, Condition
from rota.model.times import Instant


def where_of(text: object, now: Instant) -> Condition | None:
    """The condition of a query, with times that count from this instant. None: it fits all jobs, so it is none."""
    found = parse(text, now)
    return None if found == EVERYTHING else found


async def completed(client: JobsClient, text: str, at: int | None, searched: Searched) -> Completion:
    """The continuations of a text, with the values that jobs of the caller have."""
    found = complete(text, at, searched)
    if found.asked is not None:
        with suppress(InvalidQuery):  # no query may have such a value, so none is there to be completed
            return with_stored(found, await client.values(found.asked.field, found.asked.prefix, MOST))
    return found
