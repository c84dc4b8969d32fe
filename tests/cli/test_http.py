"""HTTP calls on the command line: ordered, scheduled, in files of workflows, and shown without their secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.program import APP, LATER, Rota
from tests.servers.web import Web, reply, web

SECRET = "s3cret"


@pytest.fixture(scope="module")
def server() -> Iterator[Web]:
    with web() as found:
        yield found


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rota]:
    """With a node that may call this machine."""
    folder = tmp_path_factory.mktemp("calling")
    (folder / "shop.py").write_text(APP)
    rota = Rota(folder)
    node = rota.start("up", "--slots", "8", ROTA_HTTP_ALLOW="127.0.0.1")
    node.read_until("is up")
    yield rota
    try:
        for _ in range(2):
            node.signal()
        assert node.end() == 0, node.err
        assert SECRET not in node.err + node.out
    finally:
        node.kill()


def test_a_call_with_all_that_can_be_said_of_it(calling: Rota, server: Web) -> None:
    url = server.on("/all", reply(404, '{"no": 1}', content_type="application/json"))
    (calling.folder / "secrets.txt").write_text(f"# ours\nX-Api-Key: {SECRET}\n\nCookie:a={SECRET}\n")
    (calling.folder / "body.json").write_text('{"a": [1]}')
    done = calling(
        "submit", "--wait", "--http", "post", f"{url}?token={SECRET}&page=2", "--header", "Accept: a/b",
        "--header-env", "Authorization=MY_AUTH", "--header-file", "secrets.txt", "--json-body", "@body.json",
        "--expect", "2xx,404", "--redirects", "0", "--name", "mine", "--retries", "0", "--timeout", "10s",
        env={"MY_AUTH": f"Bearer {SECRET}"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    asked = server.asked[-1]
    assert (asked.method, asked.path, asked.body) == ("POST", f"/all?token={SECRET}&page=2", b'{"a":[1]}')
    sent = {name: asked.headers[name] for name in ("accept", "authorization", "x-api-key", "cookie", "content-type")}
    assert sent == {
        "accept": "a/b", "authorization": f"Bearer {SECRET}", "x-api-key": SECRET, "cookie": f"a={SECRET}",
        "content-type": "application/json",
    }  # fmt: skip
    job_id = done.stdout.split()[0]
    job = calling.job(job_id)
    assert (job["state"], job["task"], job["kind"]) == ("succeeded", "mine", "http")
    assert job["result"] == {"status": 404, "headers": {"content-type": "application/json"}, "body": {"no": 1}}
    assert job["spec"]["headers"]["Authorization"] == "***"
    shown = calling.ok("job", "show", job_id)
    assert f"call       POST {url}?token=***&page=2\n" in shown
    assert (
        "headers    Accept: a/b, Authorization: ***, Content-Type: application/json, Cookie: ***, X-Api-Key: ***"
        in shown
    )
    assert 'body       {"a":[1]}\n' in shown
    assert "expects    2xx, 404\n" in shown
    assert "redirects  none\n" in shown
    assert SECRET not in shown + json.dumps(job) + calling.ok("job", "list") + calling.ok("job", "list", "--json")
    assert calling.ok("job", "logs", job_id) == '{"no": 1}'


@pytest.mark.slow
def test_bodies_may_come_from_anywhere(calling: Rota, server: Web) -> None:
    url = server.on("/body", reply(200))
    (calling.folder / "picture").write_bytes(b"\0\xff")
    for words, stdin, body, kind in [
        (("--body", "grüße"), None, "grüße".encode(), "text/plain; charset=utf-8"),
        (("--body", "-"), "piped", b"piped", "text/plain; charset=utf-8"),
        (("--body", "@picture"), None, b"\0\xff", "application/octet-stream"),
        (("--json-body", "null"), None, b"null", "application/json"),
        ((), None, b"", None),
    ]:
        done = calling("submit", "--wait", "--http", "POST", url, *words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        assert (server.asked[-1].body, server.asked[-1].headers.get("content-type")) == (body, kind)
    assert "expects   2xx\n" in calling.ok("job", "show", done.stdout.split()[0])


@pytest.mark.slow
def test_what_fails_says_why(calling: Rota, server: Web) -> None:
    done = calling("submit", "--wait", "--http", "GET", server.url + "/none")
    assert done.returncode == 1
    assert done.stderr.endswith(f"failed: status 404 from GET {server.url}/none\n")
    done = calling("submit", "--wait", "--http", "GET", "http://169.254.169.254/latest/meta-data")
    assert "failed: 169.254.169.254: metadata addresses are denied unless http_allow has them" in done.stderr


@pytest.mark.slow
def test_a_schedule_of_a_call(calling: Rota, server: Web) -> None:
    url = server.on("/tick", reply(200))
    header = ("--header", f"X-Key: {SECRET}", "--header", "Accept: {fire_time}")
    calling.ok("schedule", "add", "tick", LATER, "--http", "GET", f"{url}?at={{fire_time}}", *header, "--retries", "0")
    shown = calling.ok("schedule", "show", "tick")
    assert f"GET {url}?at={{fire_time}}" in shown
    assert "X-Key: ***" in shown
    found = calling.json("schedule", "show", "tick")
    assert (found["job"]["kind"], found["job"]["spec"]["headers"]["X-Key"]) == ("http", "***")
    assert SECRET not in shown + json.dumps(found) + calling.ok("schedule", "list", "--json")
    assert calling("schedule", "fire", "tick", "--wait").returncode == 0
    asked = server.asked[-1]
    assert asked.headers["x-key"] == SECRET
    assert asked.path == f"/tick?at={asked.headers['accept'].replace('+', '%2B')}"


@pytest.mark.slow
def test_a_call_in_a_file_of_a_workflow(calling: Rota, server: Web) -> None:
    server.on("/one", reply(200, "1"))
    call = {"method": "POST", "url": server.url + "/one", "json": {"a": 1}, "headers": {"X-Key": SECRET}}
    jobs = [{"name": "first", "http": call}, {"name": "then", "command": ["true"], "after": "first"}]
    (calling.folder / "flow.json").write_text(json.dumps({"jobs": jobs}))
    made = calling.json("workflow", "submit", "flow.json")
    assert calling("workflow", "wait", made["id"], "--timeout", "20s").returncode == 0
    assert server.asked[-1].headers["x-key"] == SECRET
    assert SECRET not in calling.ok("workflow", "show", made["id"]) + calling.ok("job", "show", made["jobs"]["first"])


WRONG_FILES = [
    ({"http": {"method": "GET"}}, "'jobs[0].http.url' is missing"),
    ({"http": {"method": "GET", "url": "x"}}, "job 'a': url: 'x' is not valid"),
    ({"http": {"method": "GET", "url": "http://a", "hedaers": {}}}, "'jobs[0].http.hedaers' is unknown"),
    ({"http": {"method": "GET", "url": "http://a", "body": "x", "json": 1}}, "job 'a': body and json: 'both'"),
    ({"http": {"method": "GET", "url": "http://a"}, "command": ["ls"]}, "http: 'command and http' is not valid"),
    ({"http": {"method": "GET", "url": "http://a"}, "cwd": "/"}, "cwd: '/' is not valid; expected it at a command"),
    ({"http": {"method": "GET", "url": "http://a"}, "args": {}}, "expected none: an HTTP call has a body"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("entry", "text"), WRONG_FILES)
def test_wrong_calls_in_files(rota: Rota, entry: dict[str, object], text: str) -> None:
    (rota.folder / "flow.json").write_text(json.dumps({"jobs": [{"name": "a", **entry}]}))
    done = rota("workflow", "submit", "flow.json")
    assert done.returncode == 2
    assert text in done.stderr
    assert not (rota.folder / "rota.db").exists()


CALL = ("--http", "GET", "http://a/")
WRONG: list[tuple[tuple[str, ...], str]] = [
    (("--http", "GET"), "--http: expected 2 arguments"),
    (("--http", "GET", "a"), "url: 'a' is not valid"),
    (("--http", "GET", f"http://u:{SECRET}@a/"), "Authorization header"),
    (("--http", "G T", "http://a/"), "method: 'G T' is not valid"),
    (("hello", *CALL), "not both ('hello' and --http)"),
    ((*CALL, "--", "ls"), "not both (--http and 'ls')"),
    ((*CALL, "--cwd", "/"), "--cwd is for commands, not for an HTTP call"),
    (("--expect", "200", "--", "ls"), "--expect is for HTTP calls, not for a command"),
    (("hello", "--header", "A: b"), "--header is for HTTP calls, not for the task 'hello'"),
    ((*CALL, "--header", SECRET), "--header: '***' is not valid; expected 'Name: value'"),
    ((*CALL, "--header", f"A: {SECRET}\r\nB: c"), "header A: '***' is not valid"),
    ((*CALL, "--header", "A: b", "--header", "a: c"), "header: 'a' is not valid; expected each header once"),
    ((*CALL, "--header", "Host: b"), "header: 'Host' is not valid; expected one that rota does not send by itself"),
    ((*CALL, "--header-env", "A=NOT_SET_ANYWHERE"), "'NOT_SET_ANYWHERE' is not valid; expected a variable that is set"),
    ((*CALL, "--header-env", SECRET), "--header-env: '***' is not valid"),
    ((*CALL, "--header-file", "missing"), "a file that can be read (No such file or directory)"),
    ((*CALL, "--body", "@missing"), "a file that can be read (No such file or directory)"),
    ((*CALL, "--json-body", "{"), "--json-body: '***' is not valid; expected JSON"),
    ((*CALL, "--json-body", "{}", "--body", "x"), "not allowed with argument"),
    ((*CALL, "--expect", "all"), "expected statuses: 'all' is not valid"),
    ((*CALL, "--redirects", "-1"), "redirects: -1 is not valid"),
    ((*CALL, "--redirects", "x"), "'x' is not a whole number"),
    ((*CALL, "--name", ""), "task name: '' is not valid"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("words", "text"), WRONG, ids=lambda value: str(value)[:60])
def test_wrong_calls_are_one_line_and_make_no_store(
    rota: Rota, words: tuple[str, ...], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for verb in (("submit",), ("schedule", "add", "n", LATER)):
        try:
            code, _ = rota.here(*verb, *words)
        except SystemExit as left:
            code = int(str(left.code))
        said = capfd.readouterr().err
        assert code == 2
        assert text in said
        assert said.count("\n") == 1
        assert SECRET not in said
    assert not (rota.folder / "rota.db").exists()
