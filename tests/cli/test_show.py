"""What reaches a screen, and what must not."""

from __future__ import annotations

import pytest

from rota.cli import show
from rota.cli.logs import _Json, _Stamped, _Terminal
from rota.store.values import Chunk


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain", "plain"),
        ("übergrößenträger 日本", "übergrößenträger 日本"),
        ("two\nlines\tand more", "two lines and more"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud800", "\\ud800"),
    ],
)
def test_texts_of_jobs_are_one_harmless_line(given: str, shown: str) -> None:
    assert show.safe(given) == shown
    assert show.safe(given).isprintable()


def test_a_table_in_a_pipe_is_aligned_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(("ID", "STATE"), [("a", ("failed", "red")), ("long one", "x\x1by")])
    assert capsys.readouterr().out == "ID        STATE\na         failed\nlong one  x\\x1by\n"


def test_a_table_may_come_in_portions_that_its_first_one_lays_out(capsys: pytest.CaptureFixture[str]) -> None:
    table = show.Table(("ID", "STATE"))
    table.add([])
    assert capsys.readouterr().out == ""
    table.add([("long one", "failed")])
    table.add([("b", "ready"), ("longer than that", "x")])
    table.end()
    assert capsys.readouterr().out == "ID        STATE\nlong one  failed\nb         ready\nlonger than that  x\n"
    empty = show.Table(("ID", "STATE"))
    empty.end()
    assert capsys.readouterr().out == "ID  STATE\n"


def test_portions_on_a_terminal_have_one_header(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    table = show.Table(("ID", "STATE"))
    table.add([("one", ("failed", "red"))])
    table.add([("four", "a state of more than thirty letters")])
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["ID", "STATE"], ["one", "failed"], ["four", "a"],
    ]  # fmt: skip


def test_facts_leave_out_what_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    show.facts([("id", "1"), ("reason", ""), ("state", ("failed", "red"))])
    assert capsys.readouterr().out == "id     1\nstate  failed\n"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (200_000, "2d"), (-5, "0s")],
)
def test_ages_have_one_unit(seconds: int, shown: str) -> None:
    assert show.age(seconds * 1_000_000) == shown


def test_ages_know_before_and_after() -> None:
    assert show.ago(4_000_000, 1_000_000) == "in 3s"
    assert show.ago(1_000_000, 4_000_000) == "3s ago"
    assert show.ago(None, 0) == ""


class Screen:
    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture

    @property
    def text(self) -> str:
        return self._capture.readouterr().out.decode()


@pytest.fixture
def screen(capsysbinary: pytest.CaptureFixture[bytes]) -> Screen:
    return Screen(capsysbinary)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([b"a\tb\r\n"], "a\tb\r\n"),
        ([b"\x1b[31mred\x1b[0m"], "\x1b[31mred\x1b[0m\x1b[0m"),
        ([b"\x1b[1;3", b"2mgreen"], "\x1b[1;32mgreen\x1b[0m"),
        ([b"\x1b[2J"], "\\x1b[2J"),
        ([b"\x1b", b"]52;c;aGk=\x07"], "\\x1b]52;c;aGk=\\x07"),
        ([b"end\x1b["], "end\\x1b["),
        ([b"\xc3", b"\xa4"], "ä"),
        ([b"\xff"], "\ufffd"),
        ([b"\xc2\x9b2J"], "\\x9b2J"),
        ([b"\x08\x00"], "\\x08\\x00"),
    ],
)
def test_a_terminal_gets_colours_and_nothing_else(pieces: list[bytes], shown: str, screen: Screen) -> None:
    target = _Terminal()
    for piece in pieces:
        target.put(piece)
    target.close()
    assert screen.text == shown


def test_an_endless_sequence_is_not_waited_for(screen: Screen) -> None:
    target = _Terminal()
    target.put(b"\x1b[" + b"1;" * 1000)
    assert screen.text.startswith("\\x1b[1;")


def chunk(at: int, stream: str, body: bytes, fence: int = 1) -> Chunk:
    return Chunk("job", fence, 0, at, stream, body)


class Kept:
    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def put(self, body: bytes) -> None:
        self.lines.append(body)

    def close(self) -> None:
        pass


def test_stamps_stand_before_whole_lines() -> None:
    kept = Kept()
    writer = _Stamped(kept)
    writer.write(chunk(0, "stdout", b"one\ntw"), 1)
    writer.write(chunk(1_000_000, "stderr", b"other\n"), 1)
    writer.write(chunk(2_000_000, "stdout", b"o\nrest"), 1)
    writer.close()
    first, third = b"1970-01-01T00:00:00.000000+00:00", b"1970-01-01T00:00:02.000000+00:00"
    assert kept.lines == [
        first + b" stdout one\n",
        b"1970-01-01T00:00:01.000000+00:00 stderr other\n",
        first + b" stdout two\n",
        third + b" stdout rest\n",
    ]


def test_json_lines_put_characters_together_again(screen: Screen) -> None:
    writer = _Json()
    writer.write(chunk(0, "stdout", b"\xc3"), 1)
    writer.write(chunk(0, "stderr", b"x"), 1)
    writer.write(chunk(0, "stdout", b"\xa4"), 1)
    writer.write(chunk(0, "stderr", b"\xc3"), 1)
    writer.close()
    lines = screen.text.splitlines()
    assert [line.partition('"stream"')[2] for line in lines] == [
        ':"stderr","text":"x"}',
        ':"stdout","text":"ä"}',
        ':"stderr","text":"\ufffd"}',
    ]


@pytest.mark.parametrize(
    ("room", "kept", "widths"),
    [
        (200, "ID TASK PRI QUEUE REASON", [5, 15, 3, 5, 90]),
        (60, "ID TASK PRI QUEUE REASON", [5, 15, 3, 5, 24]),
        (52, "ID TASK QUEUE REASON", [5, 15, 3, 5, 21]),
        (40, "ID TASK REASON", [5, 11, 3, 5, 20]),
        (20, "ID TASK", [5, 10, 3, 5, 90]),
    ],
)
def test_a_narrow_terminal_shows_less(room: int, kept: str, widths: list[int]) -> None:
    headers, found = ("ID", "TASK", "PRI", "QUEUE", "REASON"), [5, 15, 3, 5, 90]
    assert [headers[n] for n in show._fit(headers, found, room)] == kept.split()
    assert found[:2] + found[-1:] == widths[:2] + widths[-1:]


@pytest.mark.parametrize("room", [30, 36, 40, 50, 60, 70, 80, 100, 140])
@pytest.mark.parametrize("headers", [("ID", "TASK", "STATE", "WHEN", "REASON"), ("FIRE TIME", "KIND", "STATE", "JOB")])
def test_an_id_is_never_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], room: int, headers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", str(room))
    monkeypatch.setattr(show, "on_terminal", lambda: True)
    job = "01930000-aaaa-7000-8000-000000000001"
    texts = {"ID": job, "JOB": job, "TASK": "a task with a long name " * 3, "REASON": "because " * 30}
    show.table(headers, [[texts.get(name, name.lower()) for name in headers]])
    lines = capsys.readouterr().out.splitlines()
    assert sum(job in line for line in lines) == 1
    assert len(lines) == 2
    if room >= 60:
        assert max(map(len, lines)) <= room
