"""The shop of examples/from_celery does the same on rota as on Celery."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from examples.from_celery import celery_shop, rota_shop
from rota import testing
from tests.node.running import LONG, running

ROOT = Path(__file__).parents[2]
ARTICLES = ["book", "lamp", "pen"]
RECEIPT, PRICES = "order 7: 44 euros", [12, 30, 2]


@pytest.fixture
def eager() -> Iterator[Any]:
    conf = celery_shop.app.conf
    conf.update(task_always_eager=True)
    celery_shop.app.set_current()
    yield celery_shop
    conf.update(task_always_eager=False)


def test_eager_tests_have_the_same_results(eager: Any) -> None:
    assert (eager.checkout(7, ARTICLES).get(), eager.quote(ARTICLES).get()) == (RECEIPT, PRICES)
    with pytest.raises(KeyError):
        eager.price.delay("ship").get()
    with testing.harness(rota_shop.app, eager=True, raise_errors=True):
        assert [job.result_sync() for job in rota_shop.quote(ARTICLES)] == PRICES
        with pytest.raises(KeyError):
            rota_shop.price.submit_sync("ship")


def test_retries_in_the_time_of_the_harness() -> None:
    with testing.harness(rota_shop.app) as rota_test:
        start = rota_test.clock.now()
        receipt = rota_shop.checkout(7, ARTICLES)
        rota_test.drain()
        assert receipt.result_sync() == RECEIPT
        assert rota_test.clock.now() - start == 1_000_000, "one retry, after a second as on Celery"
        assert rota_test.assert_submitted(rota_shop.reserve, order_id=7).workflow is not None


@pytest.mark.slow
def test_routes_and_schedules_are_the_same() -> None:
    router = celery_shop.app.amqp.router
    with testing.harness(rota_shop.app, now="2027-01-01T00:00:00+01:00") as rota_test:
        rota_shop.checkout(7, ARTICLES)
        for order in rota_test.orders:
            assert router.route({}, order.task)["queue"].name == order.queue
        rota_test.advance("4h")
        history = rota_shop.app.sync(rota.Schedule(rota_shop.app, "nightly").history())
        assert [rota_shop.app.sync(one.result()) for one in _jobs(history)] == ["carts are clean"]
        assert len(rota_shop.app.sync(rota.Schedule(rota_shop.app, "pulse").history(5_000))) == 4 * 3600 // 30
    beat = celery_shop.app.conf.beat_schedule
    assert (beat["nightly"]["schedule"].hour, beat["nightly"]["schedule"].minute) == ({3}, {0})
    assert [celery_shop.clean_up(*entry["args"]) for entry in beat.values()] == [
        "carts are clean",
        "sessions are clean",
    ]


def _jobs(history: Any) -> list[rota.Job[Any]]:
    return [rota.Job(rota_shop.app, fire.job_id) for fire in history]


@pytest.mark.slow
def test_a_worker_and_a_node_have_the_same_results(tmp_path: Path) -> None:
    assert _on_celery() == (RECEIPT, PRICES)
    assert asyncio.run(_on_rota(tmp_path)) == (RECEIPT, PRICES)


def _on_celery() -> tuple[Any, Any]:
    from celery.contrib.testing.worker import start_worker

    celery_shop.app.set_current()
    queues = ["default", "mail"]
    with start_worker(celery_shop.app, pool="solo", perform_ping_check=False, queues=queues, shutdown_timeout=30):
        return celery_shop.checkout(7, ARTICLES).get(timeout=LONG), celery_shop.quote(ARTICLES).get(timeout=LONG)


async def _on_rota(folder: Path) -> tuple[Any, Any]:
    app = rota_shop.app
    app.configure(store=f"sqlite:///{folder}/rota.db", queues="default:4,mail:2", kill_grace="500ms")
    async with running(app):
        receipt = await asyncio.to_thread(rota_shop.checkout, 7, ARTICLES)
        quoted = await asyncio.to_thread(rota_shop.quote, ARTICLES)
        return await receipt.result(LONG), [await job.result(LONG) for job in quoted]


def test_the_page_shows_the_port() -> None:
    page = (ROOT / "docs" / "from-celery.md").read_text()
    for name in ("celery_shop.py", "rota_shop.py"):
        source = (ROOT / "examples" / "from_celery" / name).read_text()
        shown = [block for block in re.findall(r"^```python\n(.*?)^```$", page, re.S | re.M) if block.strip() in source]
        assert shown, f"a block of the page is no longer part of {name}"
