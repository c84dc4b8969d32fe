"""A web server that answers as it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.web import Web, web


@pytest.fixture
def server() -> Iterator[Web]:
    with web() as found:
        yield found
