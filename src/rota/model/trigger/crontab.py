"""Reads a crontab: its entries, and a reason for each refused line.

Follows Vixie's cron, cronie and Debian's. When in doubt a line is refused: a refused line is reported, but a job that
runs at another time, in another zone or without its input goes unnoticed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import msgspec

from rota.errors import InvalidInput
from rota.model.trigger.rules import cron
from rota.model.trigger.zones import zone

LONGEST_TEXT = 1_000_000
MOST_LINES = 10_000
LONGEST_LINE = 30_000  # Linux takes 128 KiB for one argument, and a character may need four bytes
MOST_VARIABLES = 200  # each entry has all those above it, so without a bound they grow with the square of the lines
LONGEST_SHOWN = LONGEST_NAME = 200
DEFAULT_SHELL = "/bin/sh"

_BLANKS = " \t\r"  # \r is from CRLF; cron has no other blanks
_BLANK = re.compile(r"[ \t]+")
_UNFIT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")  # control characters; not UTF-8
_VARIABLE = re.compile(
    r"""(?: "(?P<double>[^"=]*)" | '(?P<single>[^'=]*)' | (?P<bare>[^\s="'][^\s=]*) ) \s* = \s* (?P<value>.*)""",
    re.ASCII | re.VERBOSE,
)
_ZONE_LINE = re.compile(r"""["']?CRON_TZ["']?\s*=""", re.ASCII)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_FIELD = re.compile(r"[!-~]+")
_STEP_WITHOUT_RANGE = re.compile(r"(?:^|,)(?![Hh]/)[0-9A-Za-z]+/")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?")
_UP_TO_PERCENT = re.compile(r"(?:[^\\%]|\\.?)*")
_ESCAPED = re.compile(r"\\(.)")
_BEFORE_PROGRAM = re.compile(
    r"""(?: [A-Za-z_]\w*= (?: '[^']*' | "[^"]*" | [^\s'"] )* \s+ | cd \s+ [^\s;&]+ \s* (?: && | ; ) \s* )*""",
    re.ASCII | re.VERBOSE,
)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_canonical = msgspec.json.Encoder()

# Variables for cron itself. LOGNAME is one too: cron sets it whatever the file says.
_OF_CRON = frozenset({"LOGNAME", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "NO_MAIL_OUTPUT"})
_WITHOUT_EFFECT = {
    "MAILTO": "mail is not sent; the output is kept with the job, see `rota job logs`",
    "RANDOM_DELAY": "a random delay is not taken from the file; give the schedules below this line one with --jitter",
    "CRON_WITHIN": "CRON_WITHIN has no effect; say with the schedule's catch-up how late a job may still start",
    "START_HOURS_RANGE": "this is for anacron and has no effect; name the hours in the entries below this line",
}
_PARTS = "minute, hour, day of month, month, day of week and a command"


class CrontabEntry(msgspec.Struct, frozen=True):
    """A command and when to run it. Entries share their `env` with their neighbours: don't write to it."""

    line: int
    rule: str  # as read_rule takes it
    zone: str | None  # None: the file names none, and cron would take the machine's
    shell: str
    command: str
    env: dict[str, str]
    user: str | None


class Untaken(msgspec.Struct, frozen=True):
    line: int
    text: str  # printable; the beginning, if it is long
    why: str


class Crontab(msgspec.Struct, frozen=True):
    entries: list[CrontabEntry]
    untaken: list[Untaken]


class _Refused(Exception):
    """The reason why a line is refused."""


def read_crontab(text: str, *, user_column: bool = False) -> Crontab:
    """Raises only if the text is too large. `user_column`: a user stands before the command, as in /etc/crontab."""
    reader = _Reader(user_column)
    for number, line in _lines(text):
        reader.read(number, line)
    return Crontab(reader.entries, reader.untaken)


def entry_name(entry: CrontabEntry, prefix: str = "") -> str:
    """A name for the schedule: the program, and a hash of the entry's content.

    The line number is not part of it, so a file that was edited elsewhere gives the same names. For that reason the
    hash must never change. Two equal entries have one name.
    """
    said = (entry.rule, entry.zone, entry.command, sorted(entry.env.items()), entry.user)
    digest = hashlib.blake2b(_canonical.encode(said), digest_size=4).hexdigest()
    stem = _NOT_IN_NAMES.sub("-", prefix + _program(entry.command)).lstrip("-")  # a name must not look like an option
    return f"{stem[: LONGEST_NAME - 9]}-{digest}"


def _program(command: str) -> str:
    before = _BEFORE_PROGRAM.match(command)
    words = command[before.end() if before else 0 :].split(maxsplit=1)
    base = words[0].rstrip("/").rpartition("/")[2] if words else ""
    return _NOT_IN_NAMES.sub("-", base).strip("-.") or "command"


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with content. Only LF ends a line: a part of a comment in cron must not be an entry here."""
    if len(text) > LONGEST_TEXT:
        raise InvalidInput("crontab", f"{len(text):,} characters", f"at most {LONGEST_TEXT:,} characters")
    lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    if len(lines) > MOST_LINES:
        raise InvalidInput("crontab", f"{len(lines):,} lines", f"at most {MOST_LINES:,} lines")
    for number, line in enumerate(lines, start=1):
        said = line.strip(_BLANKS)
        if said and not said.startswith("#"):
            yield number, said


class _Reader:
    """The variables of the lines so far. A variable holds for the entries below it, until it is set again."""

    def __init__(self, user_column: bool) -> None:
        self.entries: list[CrontabEntry] = []
        self.untaken: list[Untaken] = []
        self._user_column = user_column
        self._env: dict[str, str] = {}
        self._zone: str | None = None
        self._zone_lost: int | None = None  # the line with an unknown zone, if it holds here

    def read(self, number: int, line: str) -> None:
        try:
            _check(line)
            variable = _variable(line)
            if variable is not None:
                self._set(*variable)
            else:
                self.entries.append(self._entry(number, line))
        except (InvalidInput, _Refused) as problem:
            self.untaken.append(Untaken(number, _shown(line), str(problem)))
            if _ZONE_LINE.match(line):
                self._zone_lost = number

    def _set(self, name: str, value: str) -> None:
        if name == "CRON_TZ":
            self._zone = zone(value).name if value else None  # empty: the machine's again
            self._zone_lost = None
        elif name in _WITHOUT_EFFECT:
            if value.strip():
                raise _Refused(_WITHOUT_EFFECT[name])
        elif name == "SHELL" and not value:
            raise _Refused(f"SHELL is empty; name a shell such as {DEFAULT_SHELL}")
        elif name not in _OF_CRON:
            if name not in self._env and len(self._env) == MOST_VARIABLES:
                raise _Refused(f"at most {MOST_VARIABLES} variables are taken; set this one in a script")
            self._env = {**self._env, name: value}

    def _entry(self, number: int, line: str) -> CrontabEntry:
        rule, rest = _rule(line)
        user, rest = _user(rest) if self._user_column else (None, rest)
        command = _command(rest)
        if self._zone_lost is not None:
            lost = self._zone_lost
            raise _Refused(f"the time zone of line {lost} was not taken, and this is meant in it; correct line {lost}")
        return CrontabEntry(number, rule, self._zone, self._env.get("SHELL", DEFAULT_SHELL), command, self._env, user)


def _check(line: str) -> None:
    unfit = _UNFIT.search(line)
    if unfit:
        raise _Refused(f"the character {unfit[0]!a} is not taken; remove it, and save the file as UTF-8")
    if len(line) > LONGEST_LINE:
        raise _Refused(f"the line has {len(line):,} characters, {LONGEST_LINE:,} are taken; put it into a script")


def _variable(line: str) -> tuple[str, str] | None:
    """Name and value; None for an entry, which has no = after its first word."""
    found = _VARIABLE.fullmatch(line)
    if found is None:
        return None
    name = found["double"] or found["single"] or found["bare"] or ""
    if not _VARIABLE_NAME.fullmatch(name):
        raise _Refused(f"{name[:80]!r} can't be the name of a variable; use letters, digits and _")
    value: str = found["value"]
    if not value.startswith(('"', "'")):
        return name, value
    quoted, closed, after = value[1:].partition(value[0])
    if not closed or after.strip(_BLANKS):
        raise _Refused(f"the value of {name[:80]} must end with the quote it begins with, {value[0]}")
    return name, quoted


def _rule(line: str) -> tuple[str, str]:
    """The rule, and the rest of the line. A dash before it tells cronie not to log."""
    text = line.removeprefix("-").lstrip(_BLANKS)
    first = _BLANK.split(text, 1)[0].lower()
    count = 2 if first == "@every" else 1 if text.startswith("@") else 5
    parts = _BLANK.split(text, count)
    fields, rest = parts[:count], "".join(parts[count:])
    if len(fields) < count:
        raise _Refused(f"this is neither NAME=value nor {_PARTS}; complete it, or make it a comment with #")
    _check_fields(fields)
    rule = " ".join(fields)
    cron(rule)
    _check_steps(fields)
    if rest.startswith("*"):
        raise _Refused(f"there are more than five fields of time; give {_PARTS}")
    return rule, rest


def _check_fields(fields: list[str]) -> None:
    """Refuses fields that rota reads in another way than cron, or can explain better than its rules do."""
    if fields[0].lower() == "@reboot":
        raise _Refused("rota doesn't know when a machine starts; let its init system run this, systemd for example")
    for field in fields:
        if not _FIELD.fullmatch(field):
            raise _Refused(f"{field[:80]!r} has characters that times can't have; check it for special blanks")
        if "~" in field:
            raise _Refused(f"random times such as {field[:80]} are not taken; use H, or H(0-29) for one of a range")


def _check_steps(fields: list[str]) -> None:
    """Checks fields that rota can read: steps after L and the like are refused before, with their own reason."""
    for field in fields:
        if _STEP_WITHOUT_RANGE.search(field):
            raise _Refused(f"crons differ in how they read {field[:80]}; give the step a range, as in 5-59/10")


def _user(text: str) -> tuple[str, str]:
    user, *rest = _BLANK.split(text, 1)
    if user and not _USER.fullmatch(user):
        raise _Refused(f"{user[:80]!r} is not the name of a user; is there a user column? if not, read it without")
    if user and not rest:
        raise _Refused(f"there is no command after the user {user[:80]}; add one, or read the file without user column")
    return user, "".join(rest)


def _command(text: str) -> str:
    """The command as the shell gets it. In cron % ends it, and the rest is its input."""
    found = _UP_TO_PERCENT.match(text)
    end = found.end() if found else 0
    if text[end + 1 :].strip(_BLANKS):
        raise _Refused("standard input after % is not taken; write \\% if % is meant, else pipe it into the command")
    command = _ESCAPED.sub(lambda pair: "%" if pair[1] == "%" else pair[0], text[:end]).strip(_BLANKS)
    if not command:
        raise _Refused("there is no command after the times; add one")
    return command


def _shown(line: str) -> str:
    beginning = line if len(line) <= LONGEST_SHOWN else f"{line[: LONGEST_SHOWN - 3]}..."
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in beginning)
