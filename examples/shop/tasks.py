"""What the shop does outside of a request. Each function is short, typed, and safe to run twice."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select

import rota
from examples.shop.app import app
from examples.shop.database import Article, Order, session


class OutOfStock(Exception):
    """Trying again does not help."""


@dataclass
class Receipt:
    order: int
    cents: int


@app.task(retry=rota.Retry(3, rules={OutOfStock: "fatal"}), exclusive="article:{article}")
def reserve(order: int, article: str, quantity: int) -> int:
    """Takes the articles from the stock; returns the price. One at a time for each article, over all nodes."""
    with session() as rows, rows.begin():
        placed, item = rows.get_one(Order, order), rows.get_one(Article, article)
        if placed.state == "placed":
            if item.stock < quantity:
                raise OutOfStock(f"{item.stock} of {article} are left, {quantity} are wanted")
            item.stock -= quantity
            placed.state = "reserved"
        return item.cents * quantity


@app.task(rate="100/1s", retry=rota.Retry(8, backoff="2s..10m"), timeout="30s")
async def charge(ctx: rota.Context, order: int, cents: int) -> Receipt:
    """Would call the payment provider, with the order as its idempotency key and the fence beside it."""
    ctx.log("charging", order=order, cents=cents, fence=ctx.fence)
    return Receipt(order, cents)


@app.task(queue="mail")
async def send_receipt(email: str, receipt: Receipt) -> str:
    return f"to {email}: order {receipt.order}, {receipt.cents / 100:.2f} paid"


@app.task
def ship(order: int) -> None:
    with session() as rows, rows.begin():
        rows.get_one(Order, order).state = "shipped"


@app.task
def refuse(order: int) -> None:
    """Runs if anything before it failed."""
    with session() as rows, rows.begin():
        rows.get_one(Order, order).state = "refused"


@app.cron("0 6 * * *", tz="Europe/Berlin", overlap="skip")
def daily_sales() -> dict[str, int]:
    """Articles sold so far, by name."""
    with session() as rows:
        sold = select(Order.article, func.sum(Order.quantity)).where(Order.state == "shipped").group_by(Order.article)
        return {article: int(count) for article, count in rows.execute(sold)}
