"""The rows of the shop, on SQLite or PostgreSQL."""

from __future__ import annotations

import os
from functools import cache

from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Article(Base):
    __tablename__ = "articles"
    name: Mapped[str] = mapped_column(primary_key=True)
    cents: Mapped[int]
    stock: Mapped[int]


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    article: Mapped[str]
    quantity: Mapped[int]
    email: Mapped[str]
    state: Mapped[str] = mapped_column(default="placed")  # placed, shipped or refused
    workflow: Mapped[str | None]  # the id of the workflow that fulfils it; None: not ordered yet


@cache
def engine() -> Engine:
    """Made when first used: a process must not use the connections of the process that it was forked from."""
    return create_engine(os.environ.get("SHOP_DATABASE", "sqlite:///shop.db"))


def session() -> Session:
    return Session(engine(), expire_on_commit=False)


def stock_up() -> None:
    """Creates the tables, with something to sell."""
    Base.metadata.create_all(engine())
    with session() as rows, rows.begin():
        if rows.get(Article, "book") is None:
            rows.add_all([Article(name="book", cents=1999, stock=100), Article(name="lamp", cents=4500, stock=1)])
