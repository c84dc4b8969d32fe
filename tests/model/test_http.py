"""Which HTTP calls may be ordered, what of them is shown, and what a server may ask for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model import http
from rota.model.http import HttpSpec, Target
from rota.model.job import Kind, Spec, shown_order
from rota.model.times import DAY, SECOND

URL = "https://example.com/hook"
NOON = 1_800_000_000 * SECOND  # Fri, 15 Jan 2027 08:00:00 GMT
NOON_TEXT = "Fri, 15 Jan 2027 08:00:00 GMT"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com", Target("https", "example.com", 443, "/")),
        ("HTTP://Example.COM.:8080/A?b=c#d", Target("http", "example.com", 8080, "/A?b=c")),
        ("http://example.com?x=1", Target("http", "example.com", 80, "/?x=1")),
        ("http://[::1]:81/", Target("http", "::1", 81, "/")),
        ("http://[::FFFF:127.0.0.1]/", Target("http", "::ffff:127.0.0.1", 80, "/")),
        ("http://2130706433/", Target("http", "2130706433", 80, "/")),
        ("http://my_host-1/%20{fire_time}//x@y", Target("http", "my_host-1", 80, "/%20{fire_time}//x@y")),
    ],
)
def test_urls_lead_somewhere(url: str, expected: Target) -> None:
    assert http.target(url) == expected


def test_the_header_host_has_the_port_if_it_is_not_the_usual_one() -> None:
    urls = ["http://a", "http://a:80", "http://a:81", "https://a:443", "https://[::1]:444", "https://[::1]"]
    assert [http.target(url).authority for url in urls] == ["a", "a", "a:81", "a", "[::1]:444", "[::1]"]


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "/path", "ftp://example.com", "file:///etc/passwd", "http://", "http:///path", "http://:80/",
        "http://a:0/", "http://a:65536/", "http://a:x/", "http://a b/", "http://a/ b", "http://a/\r\nX: y", "http://a\\b/",
        "http://a\0/", "http://bücher.example/", "http://a/ü", "http://[::1", "http://::1/", "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/", "http://-a/", "http://a..b/", "http://a%41/", "http://*/", "http://a/<b>", 'http://a/"',
        f"http://{'a' * 254}/", f"http://a/{'b' * 8_000}", "gopher://a", "javascript:alert(1)", None, 5, b"http://a",
    ],
)  # fmt: skip
def test_what_is_no_url_is_refused(url: Any) -> None:
    with pytest.raises(InvalidInput, match="url"):
        http.target(url)


@pytest.mark.parametrize(
    "url", ["https://user:s3cret@example.com/", "https://s3cret@example.com", "http://a:s3cret@b@c/"]
)
def test_passwords_in_urls_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput, match="Authorization") as caught:
        http.target(url)
    assert "s3cret" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_is_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"http://a/{text}"):
        try:
            found = http.target(url)
        except InvalidInput:
            continue
        assert found.host
        assert not set(found.host + found.path) & set(" \r\n\t\0@" if url is text else " \r\n\t\0")


# -- headers -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nY: b"}, {"X": "a\nb"}, {"X": "a\0"}, {"X": "ü"}, {"X": 5}, {"X": None}, {"X": "a\x7f"},
        {"X\r\nY": "a"}, {"X:": "a"}, {"": "a"}, {"X Y": "a"}, {"ü": "a"}, {5: "a"}, {"x" * 101: "a"},
        {"Host": "a"}, {"content-length": "5"}, {"Transfer-Encoding": "chunked"}, {"Connection": "keep-alive"},
        {"Rota-Fence": "7"}, {"rota-job": "x"}, {"Upgrade": "h2c"}, {"Expect": "100-continue"},
        {"X": "1", "x": "2"}, "X: a", [("X", "a")],
    ],
)  # fmt: skip
def test_headers_that_can_t_be_sent_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidInput, match="header"):
        http.call("GET", URL, headers)


@pytest.mark.parametrize("value", ["s3cret\r\nX: y", "s3cret\0", "s3cretü"])
def test_what_is_wrong_with_a_header_is_told_without_its_value(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        http.call("GET", URL, {"Authorization": value})
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(vars(caught.value))


def test_values_of_headers_are_stripped() -> None:
    assert http.call("GET", URL, {"X-A": "  b\t"}).headers == {"X-A": "b"}


# -- method, body, expected statuses -----------------------------------------------------------------------------------
def test_methods() -> None:
    assert [http.call(method, URL).method for method in ("get", "POST", "Purge")] == ["GET", "POST", "PURGE"]
    for method in ("", "CONNECT", "trace", "GET /", "G\r\nT", "ü", None, 5):
        with pytest.raises(InvalidInput, match="method"):
            http.call(method, URL)  # type: ignore[arg-type]


def test_bodies_bring_their_type_unless_it_is_named() -> None:
    assert http.call("POST", URL, body="grüße").headers == {"Content-Type": "text/plain; charset=utf-8"}
    assert http.call("POST", URL, {"content-type": "x/y"}, "a").headers == {"content-type": "x/y"}
    binary = http.call("POST", URL, body=b"\0\xff")
    assert (binary.content(), binary.headers["Content-Type"]) == (b"\0\xff", "application/octet-stream")
    assert http.call("POST", URL, body="grüße").content() == "grüße".encode()
    assert http.call("POST", URL).content() == b""
    for body in (5, {"a": 1}, "\ud800"):
        with pytest.raises(InvalidInput, match="body"):
            http.call("POST", URL, body=body)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expect", "good", "bad"),
    [
        (None, (200, 204, 299), (301, 404, 500)),
        (200, (200,), (201,)),
        ("2xx,404", (200, 404), (403,)),
        ([201, " 4XX "], (201, 400, 499), (200, 500)),
        ({"200", 202}, (200, 202), (201,)),
    ],
)
def test_expected_statuses(expect: Any, good: tuple[int, ...], bad: tuple[int, ...]) -> None:
    spec = http.call("GET", URL, expect=expect)
    assert [http.is_expected(spec, status) for status in (*good, *bad)] == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize("expect", ["", [], "all", 99, 100, "1xx", 600, "20x", True, 2.5, [None], "200-299", "2xx;404"])
def test_what_is_no_status_is_refused(expect: Any) -> None:
    with pytest.raises(InvalidInput, match="expected statuses"):
        http.call("GET", URL, expect=expect)


@pytest.mark.parametrize("redirects", [-1, 21, True, "5", None, 2.0])
def test_wrong_numbers_of_redirects_are_refused(redirects: Any) -> None:
    with pytest.raises(InvalidInput, match="redirects"):
        http.call("GET", URL, redirects=redirects)


def test_the_same_call_has_the_same_digest() -> None:
    one, same = Spec.http("post", URL, expect="2xx"), Spec.http("POST", URL)
    assert one == same
    assert one.kind is Kind.HTTP
    assert one.digest != Spec.http("POST", URL, expect=200).digest


def test_what_was_written_by_anyone_is_checked_again() -> None:
    http.check(http.call("POST", URL, {"X": "y"}, b"\0", "404", 0))
    for spec in (
        HttpSpec("GET", "file:///etc/passwd"),
        HttpSpec("GET", URL, {"X": "a\nb"}),
        HttpSpec("GET", URL, body="%", binary=True),
        HttpSpec("GET", URL, expect=["all"]),
        HttpSpec("GET", URL, redirects=99),
    ):
        with pytest.raises(InvalidInput):
            http.check(spec)


# -- Retry-After -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "date", "expected"),
    [
        (None, None, None),
        ("7", None, 7 * SECOND),
        (" 7 ", None, 7 * SECOND),
        ("0", None, None),
        ("99999999999999", None, DAY),
        ("-7", None, None),
        ("soon", None, None),
        ("٧", None, None),
        ("Fri, 15 Jan 2027 08:00:30 GMT", None, 30 * SECOND),
        ("Fri, 15 Jan 2027 07:59:30 GMT", None, None),
        ("Fri, 15 Jan 2027 08:00:30 GMT", "Fri, 15 Jan 2027 08:00:10 GMT", 20 * SECOND),  # by the server's own clock
        ("Fri, 15 Jan 2027 08:00:30 GMT", "nonsense", 30 * SECOND),
        ("Fri, 15 Jan 2999 08:00:30 GMT", NOON_TEXT, DAY),
        ("Fri, 99 Jan 2027 08:00:30 GMT", None, None),
    ],
)
def test_what_a_server_asks_for(text: str | None, date: str | None, expected: int | None) -> None:
    assert http.retry_after(text, date, NOON) == expected


@given(st.text(), st.text())
def test_no_text_of_a_server_does_harm(text: str, date: str) -> None:
    wait = http.retry_after(text, date, NOON)
    assert wait is None or 0 < wait <= DAY


# -- what is shown -----------------------------------------------------------------------------------------------------
def test_secrets_are_not_shown() -> None:
    headers = {
        "Authorization": "s3cret",
        "cookie": "s3cret",
        "X-Api-Key": "s3cret",
        "X-Anything": "s3cret",
        "Accept": "a/b",
    }
    spec = Spec.http("GET", "https://a/x?page=2&api_token=s3cret&sig=s3cret#f", headers)
    shown, _ = shown_order(spec.kind, msgspec.json.decode(spec.body), {})
    assert "s3cret" not in str(shown)
    assert shown["headers"]["Accept"] == "a/b"
    assert shown["url"] == "https://a/x?page=2&api_token=***&sig=***#f"


@pytest.mark.parametrize("spec", [{}, {"headers": "s3cret"}, {"headers": ["s3cret"]}, {"url": 5, "headers": {"x": 5}}])
def test_broken_specifications_are_shown_without_secrets(spec: dict[str, Any]) -> None:
    assert "s3cret" not in str(shown_order("http", spec, {}))


def test_what_goes_to_another_origin() -> None:
    headers = [("Authorization", "a"), ("Cookie", "b"), ("X-Key", "c"), ("accept", "d"), ("Content-Type", "e")]
    assert http.sent_elsewhere(headers) == [("accept", "d"), ("Content-Type", "e")]
