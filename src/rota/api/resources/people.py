"""Users, access keys, the audit, and who is calling."""

from __future__ import annotations

import msgspec

from rota.api.pages import Cursor, Limit, Page, cursor_of, read_cursor
from rota.api.requests import Request
from rota.api.routes import ANY_KEY, Routes
from rota.model.access import Permission
from rota.model.times import Duration, duration, instant, some_time
from rota.store.people import AuditFilter
from rota.views.moments import Period
from rota.views.people import AuditView, KeyView, MeView, NewKeyView, UserView

ROUTES = Routes("users and keys")


class QuotasBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Bounds that are left out stay as they are; null lifts one. `submissions`: such as 600/1m. `output`: bytes, or a
    text such as 2GB."""

    submissions: str | msgspec.UnsetType | None = msgspec.UNSET
    waiting: int | msgspec.UnsetType | None = msgspec.UNSET
    schedules: int | msgspec.UnsetType | None = msgspec.UNSET
    running: int | msgspec.UnsetType | None = msgspec.UNSET
    output: int | str | msgspec.UnsetType | None = msgspec.UNSET

    def given(self) -> dict[str, object]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: bound for name, bound in fields.items() if bound is not msgspec.UNSET}


class UserBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    quotas: QuotasBody = msgspec.field(default_factory=QuotasBody)


class UserChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    quotas: QuotasBody


class KeyBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A key to make. `queues` and `tasks` are globs; `allow`: permissions beyond the role; `expires`: how long it
    lives."""

    user: str
    role: str
    queues: list[str] = []
    tasks: list[str] = []
    allow: list[str] = []
    expires: Period | None = None
    name: str = ""


class RotationBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`overlap`: how long the old key lives on; `expires`: how long the new one lives."""

    overlap: Period = "24h"
    expires: Period | None = None


class KeysQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`past`: also keys that expired or were revoked."""

    user: str | None = None
    past: bool = False


class AuditQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`since` and `until`: ISO 8601 with offset."""

    user: str | None = None
    deed: str | None = None
    since: str | None = None
    until: str | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


# -- users -----------------------------------------------------------------------------------------------------------
@ROUTES.get("/api/v1/users", Permission.ADMINISTER, "All users")
async def list_users(request: Request[None, None]) -> Page[UserView]:
    return Page([UserView.of(info) for info in await request.people.users()])


@ROUTES.post("/api/v1/users", Permission.ADMINISTER, "Adds a user", status=201)
async def add_user(request: Request[UserBody, None]) -> UserView:
    return UserView.of(await request.people.add_user(request.body.name, request.body.quotas.given()))


@ROUTES.get("/api/v1/users/{user}", Permission.ADMINISTER, "A user")
async def get_user(request: Request[None, None]) -> UserView:
    return UserView.of(await request.people.user(request.path["user"]))


@ROUTES.patch("/api/v1/users/{user}", Permission.ADMINISTER, "Changes the quotas of a user")
async def change_user(request: Request[UserChange, None]) -> UserView:
    return UserView.of(await request.people.set_quotas(request.path["user"], request.body.quotas.given()))


@ROUTES.delete("/api/v1/users/{user}", Permission.ADMINISTER, "Removes a user and revokes the keys; jobs stay")
async def remove_user(request: Request[None, None]) -> None:
    await request.people.remove_user(request.path["user"])


# -- keys ------------------------------------------------------------------------------------------------------------
@ROUTES.get("/api/v1/keys", Permission.ADMINISTER, "Access keys, without their secrets")
async def list_keys(request: Request[None, KeysQuery]) -> Page[KeyView]:
    now = request.store.now()
    found = await request.people.keys(request.query.user, request.query.past)
    return Page([KeyView.of(key, now) for key in found])


@ROUTES.post("/api/v1/keys", Permission.ADMINISTER, "Makes an access key; only this answer has its secret", status=201)
async def add_key(request: Request[KeyBody, None]) -> NewKeyView:
    body, now = request.body, request.store.now()
    lives = _life(body.expires)
    made = await request.people.add_key(
        body.user, body.role, queues=body.queues, tasks=body.tasks, allow=body.allow, name=body.name,
        expires_at=None if lives is None else now + lives,
    )  # fmt: skip
    return NewKeyView.of(made.key, made.text, now)


@ROUTES.post(
    "/api/v1/keys/{id}/rotate", Permission.READ, "Makes a key with the same rights; the old one ends later", status=201
)
async def rotate_key(request: Request[RotationBody, None]) -> NewKeyView:
    body, now = request.body, request.store.now()
    lives, overlap = _life(body.expires), duration(body.overlap, "overlap")
    made = await request.people.rotate_key(request.path["id"], overlap, None if lives is None else now + lives)
    return NewKeyView.of(made.key, made.text, now)


@ROUTES.delete("/api/v1/keys/{id}", Permission.ADMINISTER, "Revokes an access key")
async def revoke_key(request: Request[None, None]) -> None:
    await request.people.revoke_key(request.path["id"])


def _life(expires: Period | None) -> Duration | None:
    return None if expires is None else some_time(expires, "expires")


# -- audit, and the caller -------------------------------------------------------------------------------------------
@ROUTES.get("/api/v1/audit", Permission.AUDIT, "Changes by people, latest first")
async def list_audit(request: Request[None, AuditQuery]) -> Page[AuditView]:
    query = request.query
    conditions = (query.user, query.deed, query.since, query.until)
    rows = await request.people.audit(
        AuditFilter(
            user=query.user,
            deed=query.deed,
            since=None if query.since is None else instant(query.since, "since"),
            until=None if query.until is None else instant(query.until, "until"),
            after=None if query.cursor is None else read_cursor(query.cursor, tuple[int, int], conditions),
            limit=query.limit,
        )
    )
    more = cursor_of(rows[-1].place, conditions) if len(rows) == query.limit else None
    return Page([AuditView.of(row) for row in rows], more)


@ROUTES.get("/api/v1/me", ANY_KEY, "The user and the rights of the caller's key, its quotas and their use")
async def get_me(request: Request[None, None]) -> MeView:
    return MeView.of(request.grant, await request.people.quotas(), await request.people.use())
