"""`rota hot status`, `refill` and `check`, and what `rota doctor` says of a hot tier: on a real Valkey."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.program import Rota
from tests.hot.lanes import empty
from tests.servers.ports import free_port
from tests.servers.valkey import Valkey, valkey

SECRET, WRONG = "correct-horse", "battery-staple"


@pytest.fixture
def server() -> Valkey:
    return empty("valkey")


def use(rota: Rota, *urls: str) -> None:
    (rota.folder / "rota.toml").write_text(f"hot = {json.dumps(urls)}\n")


@pytest.fixture
def hot(rota: Rota, server: Valkey) -> Rota:
    """A store with a hot tier that nobody has filled."""
    use(rota, server.url())
    rota.ok("migrate")
    return rota


def said(rota: Rota, *words: str) -> tuple[int, str]:
    done = rota(*words)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def finding(rota: Rota, *words: str) -> dict[str, Any]:
    """What doctors say of the hot tier."""
    code, out = rota.here("--json", "doctor", *words)
    (found,) = [one for one in json.loads(out) if one["name"] == "hot tier"]
    assert code == (0 if found["ok"] else 1)
    return dict(found)


def test_status_before_and_after_a_refill(hot: Rota, server: Valkey) -> None:
    (before,) = hot.json("hot", "status")
    assert (before["member"], before["filled"], before["due_jobs"]) == (server.url(), False, 0)
    assert before["server"].startswith("Valkey ")
    assert before["memory"] > 100_000
    assert (before["problem"], before["max_memory"], before["reports"]) == (None, None, 0)
    assert "not filled" in hot.ok("hot", "status")
    hot.ok("submit", "--in", "30m", "--", "true")
    server.call("FLUSHALL")
    assert hot.json("hot", "refill") == {"added": 1}
    (after,) = hot.json("hot", "status")
    assert (after["filled"], after["due_jobs"]) == (True, 1)
    header, row = hot.ok("hot", "status").splitlines()
    assert header.split()[:5] == ["MEMBER", "STATE", "SERVER", "DUE", "JOBS"]
    assert "filled" in row
    assert hot.ok("hot", "refill") == "1 jobs were added, all that are due within 90 minutes"


def test_what_is_submitted_is_in_the_heap(hot: Rota) -> None:
    hot.ok("submit", "--in", "30m", "--", "true")
    hot.ok("submit", "--in", "2h", "--", "true")
    hot.ok("submit", "--", "true")
    (found,) = hot.json("hot", "status")
    assert found["due_jobs"] == 1


def test_check_names_what_is_missing_and_what_is_idle(hot: Rota, server: Valkey) -> None:
    hot.ok("submit", "--in", "30m", "--", "true")
    assert hot.ok("hot", "check") == ("1 jobs are due within the hour, 1 entries stand in the heap; they are the same")
    server.call("DEL", *server.call("KEYS", "rota:{*}:due"))
    code, text = hot.here("hot", "check")
    assert code == 1
    assert "1 jobs are not in the heap, and the sweep will find them: " in text
    code, text = hot.here("--json", "hot", "check")
    found = json.loads(text)
    assert (code, found["due_jobs"], found["entries"], found["missing"], found["idle"]) == (1, 1, 0, 1, 0)
    job = found["missing_jobs"][0]["job"]
    assert found["missing_jobs"][0]["due_at"] == hot.job(job)["run_at"]
    assert hot.json("hot", "refill") == {"added": 1}
    hot.ok("job", "cancel", job)
    code, text = hot.here("hot", "check")
    assert code == 0, "it does no harm"
    assert "1 entries stand for no scheduled job; they do no harm" in text
    found = hot.json("hot", "check")
    assert (found["missing"], found["idle"], [one["job"] for one in found["idle_entries"]]) == (0, 1, [job])


def test_a_member_that_is_away(hot: Rota, server: Valkey) -> None:
    gone = f"redis://127.0.0.1:{free_port()}/0"
    use(hot, server.url(), gone)
    code, text = hot.here("--json", "hot", "status")
    one, other = json.loads(text)
    assert code == 1
    assert (one["problem"], other["problem"]) == (None, "nothing listens there") or "refused" in other["problem"]
    code, text = hot.here("hot", "status")
    assert code == 1
    assert "away" in text
    for verb in ("refill", "check"):
        done = hot("hot", verb)
        assert done.returncode != 0
        assert f"the hot tier at {gone} can't be used" in done.stderr
        assert done.stdout == ""
    assert hot.ok("submit", "--in", "1h", "--", "true"), "rota goes on without it"


def test_without_a_hot_tier(rota: Rota) -> None:
    rota.ok("migrate")
    for verb in ("status", "refill", "check"):
        done = rota("hot", verb)
        assert done.returncode != 0
        assert "no hot tier is set; ROTA_HOT names one" in done.stderr
    assert "hot tier" not in rota.here("doctor")[1]


def test_without_a_store(rota: Rota, server: Valkey) -> None:
    use(rota, server.url())
    code, text = said(rota, "doctor")
    assert code == 1
    assert "no store at rota.db" in text
    assert not list(rota.folder.glob("rota.db*"))
    assert said(rota, "hot", "status")[0] != 0


def test_doctor_names_a_server_that_can_be_used(hot: Rota, server: Valkey) -> None:
    assert finding(hot) == {"name": "hot tier", "ok": True, "text": server.url()}
    assert f"hot tier            {server.url()}" in hot.ok("doctor")


# -- addresses that can't be used -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def guarded() -> Iterator[Valkey]:
    with valkey(requirepass=SECRET) as server:
        yield server


def test_a_wrong_password_is_named_as_such_and_shown_nowhere(rota: Rota, guarded: Valkey) -> None:
    rota.ok("migrate")
    for login, why in ((f":{WRONG}@", "password is wrong"), (f"admin:{WRONG}@", "password is wrong"), ("", "needs a")):
        use(rota, guarded.url(login))
        found = finding(rota)
        assert not found["ok"]
        assert found["text"].startswith(guarded.url())
        outputs = [found["text"], *(rota.here(*words, "hot", "status")[1] for words in ((), ("--json",)))]
        if login.startswith("admin"):
            outputs += [said(rota, *words)[1] for words in (("doctor",), ("hot", "check"), ("hot", "refill"))]
        assert not [text for text in outputs if WRONG in text or SECRET in text]
        assert all(why in text for text in outputs)


def test_the_right_password_is_shown_nowhere(rota: Rota, guarded: Valkey) -> None:
    rota.ok("migrate")
    use(rota, guarded.url(f":{SECRET}@"))
    assert finding(rota)["ok"]
    for words in (("doctor",), ("hot", "status"), ("--json", "hot", "status"), ("hot", "refill"), ("hot", "check")):
        assert SECRET not in rota.ok(*words)


@pytest.mark.parametrize(
    "url",
    [
        f"redis//:{WRONG}@host",
        f"redis://:{WRONG}@ho st",
        f"redis://a:{WRONG}@b@c:{WRONG}",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(rota: Rota, url: str) -> None:
    done = rota("hot", "status", env={"ROTA_HOT": url})
    assert done.returncode == 2
    assert "ROTA_HOT" in done.stderr
    assert WRONG not in done.stdout + done.stderr


def test_the_server_of_another_store_is_refused(hot: Rota, server: Valkey) -> None:
    assert finding(hot)["ok"]
    other = ("--store", "sqlite:///other.db")
    hot.ok("migrate", *other)
    found = finding(hot, *other)
    assert not found["ok"]
    assert "it serves another store" in found["text"]
    assert "redis-cli -n 0 DEL rota:owner" in found["text"]
    server.call("DEL", "rota:owner")
    assert finding(hot, *other)["ok"]


def test_tls_where_there_is_none(rota: Rota, server: Valkey) -> None:
    rota.ok("migrate")
    use(rota, server.url().replace("redis:", "rediss:"))
    found = finding(rota)
    assert not found["ok"]
    assert "TLS" in found["text"]
