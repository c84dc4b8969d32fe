"""The web page: `uvicorn examples.shop.web:web`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

import rota
from examples.shop.app import app
from examples.shop.database import Order, session, stock_up
from examples.shop.orders import place


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    stock_up()
    async with app:  # closes its connections at the end
        yield


web = FastAPI(lifespan=lifespan)


class Wanted(BaseModel):
    article: str
    quantity: int = Field(gt=0)
    email: str


@web.post("/orders", status_code=202)
def order(wanted: Wanted) -> dict[str, int]:
    """A plain function: FastAPI runs it in a thread, where `..._sync` calls and sync sessions are at home."""
    return {"order": place(wanted.article, wanted.quantity, wanted.email).id}


@web.get("/orders/{number}")
def shown(number: int) -> dict[str, str | int]:
    with session() as rows:
        found = rows.get(Order, number)
    if found is None:
        raise HTTPException(404, f"there is no order {number}")
    return {"order": found.id, "article": found.article, "state": found.state}


@web.get("/orders/{number}/jobs")
async def jobs(number: int) -> dict[str, str]:
    """How far the work is, job by job."""
    with session() as rows:
        found = rows.get(Order, number)
    if found is None or found.workflow is None:
        raise HTTPException(404, f"there is no work for order {number}")
    return {job.task: job.state for job in await rota.Workflow(app, found.workflow).jobs()}
