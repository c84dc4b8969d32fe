"""The tests of the shop, as its developers would write them: no node, no server, no waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import rota
import rota.testing
from examples.shop import database
from examples.shop.app import app
from examples.shop.database import Article, Order, session
from examples.shop.orders import catch_up
from examples.shop.tasks import charge, daily_sales, refuse, reserve, send_receipt
from examples.shop.web import web


@pytest.fixture
def rota_app() -> rota.App:
    return app


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite:///{tmp_path}/shop.db")
    database.engine.cache_clear()
    with TestClient(web) as client:
        yield client
    database.engine().dispose()
    database.engine.cache_clear()


def order(client: TestClient, article: str, quantity: int = 1) -> int:
    wanted = {"article": article, "quantity": quantity, "email": "ann@example.com"}
    answer = client.post("/orders", json=wanted)
    assert answer.status_code == 202
    return int(answer.json()["order"])


def test_an_order_is_charged_mailed_and_shipped(rota_test_sync: rota.testing.SyncHarness, client: TestClient) -> None:
    number = order(client, "book", 2)
    rota_test_sync.assert_submitted(reserve, article="book", quantity=2)
    rota_test_sync.drain()
    assert client.get(f"/orders/{number}").json() == {"order": number, "article": "book", "state": "shipped"}
    mail = rota_test_sync.assert_submitted(send_receipt)
    assert app.sync(app.job(mail.id)).result_sync() == f"to ann@example.com: order {number}, 39.98 paid"
    assert client.get(f"/orders/{number}/jobs").json()["refuse"] == "skipped"
    with session() as rows:
        assert rows.get_one(Article, "book").stock == 98


def test_the_last_lamp_is_sold_once(rota_test_sync: rota.testing.SyncHarness, client: TestClient) -> None:
    first, second = order(client, "lamp"), order(client, "lamp")
    rota_test_sync.drain()
    states = {client.get(f"/orders/{number}").json()["state"] for number in (first, second)}
    assert states == {"shipped", "refused"}


def test_an_order_whose_work_was_forgotten_is_caught_up(
    rota_test_sync: rota.testing.SyncHarness, client: TestClient
) -> None:
    with session() as rows, rows.begin():
        rows.add(Order(article="book", quantity=1, email="bob@example.com"))
    rota_test_sync.advance("1m")
    assert client.get("/orders/1").json()["state"] == "shipped"
    assert catch_up() == 0


@pytest.mark.rota(now="2027-01-01T05:58:00+01:00")
def test_sales_are_counted_each_morning(rota_test_sync: rota.testing.SyncHarness, client: TestClient) -> None:
    order(client, "book", 3)
    rota_test_sync.advance("2m")
    latest = app.jobs(task=daily_sales).first_sync()
    assert latest is not None
    assert latest.result == {"book": 3}


def test_wrong_orders_are_refused(rota_test_sync: rota.testing.SyncHarness, client: TestClient) -> None:
    assert client.post("/orders", json={"article": "book", "quantity": 0, "email": "x"}).status_code == 422
    assert client.get("/orders/9").status_code == 404
    rota_test_sync.assert_not_submitted(charge)
    rota_test_sync.assert_not_submitted(refuse)
