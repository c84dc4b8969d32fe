"""A shop on Celery: the original of the port in `rota_shop.py`. docs/from-celery.md compares them."""

from __future__ import annotations

from typing import Any

from celery import Celery, chain, chord, group, shared_task
from celery.schedules import crontab

app = Celery("shop", broker="memory://", backend="cache+memory://")
app.conf.update(
    task_routes={"shop.send_receipt": {"queue": "mail"}},
    task_default_queue="default",
    beat_schedule={
        "nightly": {"task": "shop.clean_up", "schedule": crontab(minute=0, hour=3), "args": ("carts",)},
        "pulse": {"task": "shop.clean_up", "schedule": 30.0, "args": ("sessions",)},
    },
    timezone="Europe/Berlin",
)

PRICES = {"book": 12, "lamp": 30, "pen": 2}


@shared_task(
    name="shop.reserve", bind=True, autoretry_for=(ConnectionError,), retry_backoff=1, retry_backoff_max=600,
    retry_jitter=False, max_retries=5,
)  # fmt: skip
def reserve(self: Any, order_id: int) -> str:
    if self.request.retries == 0:
        raise ConnectionError("the warehouse does not answer")
    return f"shelf {order_id % 10}"


@shared_task(name="shop.price")
def price(article: str) -> int:
    return PRICES[article]


@shared_task(name="shop.total")
def total(prices: list[int]) -> int:
    return sum(prices)


@shared_task(name="shop.send_receipt")
def send_receipt(amount: int, order_id: int) -> str:
    return f"order {order_id}: {amount} euros"


@shared_task(name="shop.clean_up")
def clean_up(what: str) -> str:
    return f"{what} are clean"


def checkout(order_id: int, articles: list[str]) -> Any:
    """Reserve, then price each article, then add up, then send the receipt."""
    prices = [price.si(article) for article in articles]
    return chain(reserve.si(order_id), chord(prices, total.s()), send_receipt.s(order_id)).apply_async()


def quote(articles: list[str]) -> Any:
    return group(price.s(article) for article in articles).apply_async()
