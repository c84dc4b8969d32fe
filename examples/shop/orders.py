"""How an order becomes work.

On PostgreSQL the row and its workflow are one transaction: both exist, or none does. On SQLite they are two writes. A
crash between them leaves an order without work, so `catch_up` looks for such rows. It may come late or twice: the key
of each job makes sure that an order is fulfilled once.
"""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

import rota
from examples.shop.app import app
from examples.shop.database import Order, session
from examples.shop.tasks import charge, refuse, reserve, send_receipt, ship


def place(article: str, quantity: int, email: str) -> Order:
    with session() as rows, rows.begin():
        order = Order(article=article, quantity=quantity, email=email)
        rows.add(order)
        rows.flush()  # gives it an id
        if _one_transaction():
            order.workflow = fulfil(order, within=rows).id
    if order.workflow is None:
        catch_up()
    return order


def fulfil(order: Order, within: Session | None = None) -> rota.Workflow:
    """Results become arguments: `charge` gets the price that `reserve` returned."""
    key = f"order-{order.id}"
    alarm = (refuse.options(key=f"{key}-refuse"), {"order": order.id})
    with app.workflow(key, within=within, on_failure=alarm) as flow:
        reserved = reserve.options(key=f"{key}-reserve")
        cents = flow.add(reserved, order=order.id, article=order.article, quantity=order.quantity)
        receipt = flow.add(charge.options(key=f"{key}-charge"), order=order.id, cents=cents)
        flow.add(send_receipt.options(key=f"{key}-mail"), email=order.email, receipt=receipt)
        flow.add(ship.options(key=f"{key}-ship"), order=order.id, after=receipt)
    return flow


@app.every("1m", overlap="skip")
def catch_up() -> int:
    """Orders the work of rows that have none."""
    with session() as rows, rows.begin():
        forgotten = rows.scalars(select(Order).where(Order.workflow.is_(None))).all()
        for order in forgotten:
            order.workflow = fulfil(order).id
    return len(forgotten)


def _one_transaction() -> bool:
    return app.settings.store.startswith("postgresql:")
