"""The shop of `celery_shop.py` on rota."""

from __future__ import annotations

import rota

app = rota.App(name="shop")

PRICES = {"book": 12, "lamp": 30, "pen": 2}


@app.task(name="shop.reserve", retry=rota.Retry(5, backoff="1s..10m", jitter=0, rules={KeyError: "fatal"}))
def reserve(order_id: int, ctx: rota.Context) -> str:
    if ctx.attempt == 1:
        raise ConnectionError("the warehouse does not answer")
    return f"shelf {order_id % 10}"


@app.task(name="shop.price", retry=0)
def price(article: str) -> int:
    return PRICES[article]


@app.task(name="shop.total", retry=0)
def total(prices: list[int]) -> int:
    return sum(prices)


@app.task(name="shop.send_receipt", queue="mail", retry=0)
def send_receipt(amount: int, order_id: int) -> str:
    return f"order {order_id}: {amount} euros"


@app.cron("0 3 * * *", tz="Europe/Berlin", name="nightly", args={"what": "carts"})
@app.every("30s", name="pulse", args={"what": "sessions"})
@app.task(name="shop.clean_up", retry=0)
def clean_up(what: str) -> str:
    return f"{what} are clean"


def checkout(order_id: int, articles: list[str]) -> rota.Job[str]:
    """Reserve, then price each article, then add up, then send the receipt. The job of the receipt."""
    with app.workflow(f"checkout {order_id}") as flow:
        reserved = flow.add(reserve, order_id=order_id)
        prices = [flow.add(price, article=article, after=reserved) for article in articles]
        amount = flow.add(total, prices=prices)
        return flow.add(send_receipt, amount=amount, order_id=order_id)


def quote(articles: list[str]) -> list[rota.Job[int]]:
    return price.submit_many_sync([{"article": article} for article in articles])
