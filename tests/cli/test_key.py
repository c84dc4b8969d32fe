"""`rota user`, `rota key` and `rota audit`."""

from __future__ import annotations

import pytest

from rota.model.access_keys import key_id
from tests.cli.program import Rota, refused

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def ann(rota: Rota) -> Rota:
    rota.ok("migrate")
    assert rota.ok("user", "add", "ann", "--quota", "waiting=10").startswith("ann added;")
    return rota


def test_a_key_is_shown_once_and_lives_as_it_was_made(ann: Rota) -> None:
    text = ann.ok(
        "key", "add", "--user", "ann", "--role", "submitter", "--allow", "calls,commands", "--queues", "mail*, slow",
        "--tasks", "a.*", "--expires", "90d", "--name", "laptop",
    )  # fmt: skip
    (shown,) = ann.json("key", "list", "--user", "ann")
    assert shown["id"] == key_id(text), "the text stands alone on stdout"
    assert text not in str(shown)
    assert (shown["role"], shown["state"], shown["name"]) == ("submitter", "live", "laptop")
    assert (shown["queues"], shown["tasks"], shown["allow"]) == (["mail*", "slow"], ["a.*"], ["calls", "commands"])
    assert shown["last_used_at"] is None
    row = ann.ok("key", "list").splitlines()[1]
    assert "+calls, +commands, queue mail*, queue slow, task a.*" in row


def test_rotation_and_revocation(ann: Rota, capsys: Capture) -> None:
    made = ann.json("key", "add", "--user", "ann", "--role", "viewer")
    new = ann.json("key", "rotate", made["key"]["id"], "--overlap", "1h")
    assert key_id(new["secret"]) == new["key"]["id"] != made["key"]["id"]
    assert new["key"]["replaces"] == made["key"]["id"]
    old = next(key for key in ann.json("key", "list") if key["id"] == made["key"]["id"])
    assert old["expires_at"] is not None
    assert ann.ok("key", "revoke", old["id"]) == f"{old['id']} revoked"
    assert [key["state"] for key in ann.json("key", "list", "--past")] == ["revoked", "live"]
    assert "no key" in refused(ann, capsys, "key", "revoke", old["id"], code=1)
    assert "no key" in refused(ann, capsys, "key", "rotate", "nobody", code=1)


def test_users_and_their_quotas(ann: Rota, capsys: Capture) -> None:
    said = ann.ok("user", "set", "ann", "--quota", "submissions=5/1s,waiting=none")
    assert said == "ann: submissions=5/1s"
    ann.ok("key", "add", "--user", "ann", "--role", "admin")
    shown = ann.json("user", "show", "ann")
    assert shown["quotas"] == {
        "submissions": "5/1s", "waiting": None, "schedules": None, "running": None, "output": None,
    }  # fmt: skip
    said = ann.ok("user", "set", "ann", "--quota", "running=2,output=2GB")
    assert said == "ann: submissions=5/1s, running=2, output=2GB"
    assert "running=2, output=2GB" in ann.ok("user", "list")
    assert "running=2, output=2GB" in ann.ok("user", "show", "ann")
    assert (shown["keys"], shown["access_keys"][0]["role"]) == (1, "admin")
    said = refused(ann, capsys, "user", "remove", "ann", code=1)
    assert "remove user 'ann': it has the last admin key" in said
    ann.ok("user", "add", "bea")
    ann.ok("key", "add", "--user", "bea", "--role", "admin")
    assert ann.ok("user", "remove", "ann") == "ann removed, with 1 key; its jobs stay"
    assert [user["name"] for user in ann.json("user", "list")] == ["bea"]


def test_the_audit_says_who_did_what(ann: Rota) -> None:
    job = ann.ok("submit", "--", "true")
    ann.ok("job", "cancel", job)
    ann.ok("queue", "pause", "mail", "--note", "quiet")
    rows = ann.json("audit")
    assert [row["deed"] for row in rows] == ["pause_queue", "cancel", "put_user"]
    assert (rows[1]["user"], rows[1]["key"], rows[1]["subjects"]) == ("local", "", [job])
    assert [row["deed"] for row in ann.json("audit", "--deed", "cancel", "--since", "1h", "--user", "local")] == [
        "cancel"
    ]
    assert ann.json("audit", "--until", "1h") == []
    assert len(ann.json("audit", "--limit", "2")) == 2
    assert "note=quiet" in ann.ok("audit").splitlines()[1]
    ann.ok("user", "set", "ann", "--quota", "submissions=5/1s,waiting=3")
    assert ann.ok("audit").splitlines()[1].endswith("quotas=submissions=5/1s waiting=3")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("user add a/b", "letters, digits"),
        ("user add ann", "a name that no other user has"),
        ("user add bea --quota waiting", "parts such as"),
        ("user set bea --quota waiting=1", "no user 'bea'"),
        ("user show bea", "no user 'bea'"),
        ("key add --user bea --role viewer", "no user 'bea'"),
        ("key add --user ann --role boss", "invalid choice"),
        ("key add --user ann --role viewer --allow commands", "for the role viewer"),
        ("key add --user ann --role viewer --queues a,,b", "joined by commas"),
        ("key add --user ann --role viewer --expires soon", "--expires"),
        ("key rotate x --overlap soon", "--overlap"),
        ("audit --deed dance", "one of add_key"),
        ("audit --since yesterday", "--since"),
    ],
)
def test_wrong_input(ann: Rota, capsys: Capture, words: str, said: str) -> None:
    assert said in refused(ann, capsys, *words.split(), code=1 if said.startswith("no user") else 2)
