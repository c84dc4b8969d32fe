"""Jobs."""

from __future__ import annotations

from typing import Any

from rota.api.requests import Request
from rota.api.routes import Routes
from rota.model.access import Permission

ROUTES = Routes("jobs")


@ROUTES.get("/api/v1/jobs/{id}", Permission.READ, "A job with its attempts")
async def get_job(request: Request[None, None]) -> dict[str, Any]:
    return (await request.jobs.get(request.path["id"])).as_json()
