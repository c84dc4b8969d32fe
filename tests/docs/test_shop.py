"""The example shop: its own tests, and the real thing on both stores."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Running, environment
from tests.docs.pages import ROOT
from tests.servers.postgres import database, shared_server

pytestmark = pytest.mark.slow

# A visitor: orders two lamps, of which there is one, and waits until the work is done.
VISIT = """
import json
from fastapi.testclient import TestClient
import rota
from examples.shop.app import app
from examples.shop.database import Order, session
from examples.shop.web import web

with TestClient(web) as client:
    wanted = {"article": "lamp", "quantity": 1, "email": "ann@example.com"}
    numbers = [client.post("/orders", json=wanted).json()["order"] for _ in range(2)]
    with session() as rows:
        for number in numbers:
            rota.Workflow(app, rows.get_one(Order, number).workflow).wait_sync("1m")
    print(json.dumps([client.get(f"/orders/{number}").json()["state"] for number in numbers]))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables that name the databases of the shop and of rota."""
    if request.param == "sqlite":
        yield {"ROTA_STORE": f"sqlite:///{tmp_path}/rota.db", "SHOP_DATABASE": f"sqlite:///{tmp_path}/shop.db"}
        return
    with database(shared_server()) as url:
        yield {"ROTA_STORE": url, "SHOP_DATABASE": url.replace("postgresql://", "postgresql+psycopg://")}


def test_the_shop_sells(place: dict[str, str]) -> None:
    variables = environment(**place)
    node = Running(ROOT, ("up", "--app", "examples.shop.app", "--queues", "default:4,mail:1"), variables)
    try:
        node.read_until("is up")
        visit = [sys.executable, "-W", "error", "-c", VISIT]
        done = subprocess.run(visit, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        assert sorted(json.loads(done.stdout)) == ["refused", "shipped"]
        assert node.stop() == 0, node.err
    finally:
        node.kill()


def test_the_tests_of_the_shop_pass() -> None:
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "examples/shop"]
    done = subprocess.run(tests, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100)
    assert "5 passed" in done.stdout, done.stdout + done.stderr
