"""Places in lists of jobs: read back as they were, bound to their conditions, and refused if no page gives them."""

from __future__ import annotations

import pytest

from rota.api.job_places import JobPlace
from rota.errors import InvalidInput
from rota.store.values import JobCursor
from tests.api.described import DescribedCaller
from tests.api.resources.test_searches import arrange, ask
from tests.contracts.world import World

JOB = "00000000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    "cursor", [JobCursor(JOB), JobCursor(JOB, 7), *(JobCursor(JOB, value=one) for one in ("a", -9, 0.5))]
)
def test_a_place_is_read_back(cursor: JobCursor) -> None:
    text = JobPlace.behind(cursor, 5).text({"q": "a"})
    found = JobPlace.read(text, {"q": "a"})
    assert (found.cursor, found.at) == (cursor, 5)
    with pytest.raises(InvalidInput, match="the same conditions"):
        JobPlace.read(text, {"q": "b"})


@pytest.mark.parametrize(
    ("path", "query", "place"),
    [
        ("jobs", {}, (JobCursor(JOB, 7), 5)),
        ("jobs", {}, (JobCursor(JOB, None, "x"), 5)),
        ("jobs", {"sort": "finished"}, (JobCursor(JOB, 7, 7), 5)),
        ("jobs", {"sort": "took"}, (JobCursor(JOB, 7), 5)),
        ("jobs", {"sort": "took"}, (JobCursor(JOB, None, "x"), 5)),
        ("jobs", {}, (JobCursor(JOB), -1)),
        ("jobs", {}, (JobCursor(JOB), 1 << 70)),
        ("jobs", {}, (JobCursor("x"), 5)),
        ("jobs", {"sort": "finished"}, (JobCursor(JOB, 1 << 70), 5)),
        ("dead", {}, (JobCursor(JOB), 5)),
    ],
)
async def test_a_forged_cursor_is_refused(
    world: World, path: str, query: dict[str, str], place: tuple[JobCursor, int]
) -> None:
    await arrange(world)
    forged = JobPlace.behind(*place).text(query)
    reply = await ask(DescribedCaller(world), path, cursor=forged, **query)
    assert (reply.status, reply.json["what"]) == (400, "cursor"), reply
