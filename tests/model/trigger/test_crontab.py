"""Crontabs: what is taken over, and what is said about the rest."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.job import Spec
from rota.model.times import instant
from rota.model.trigger.cron_text import ALIASES
from rota.model.trigger.crontab import (
    LONGEST_LINE,
    MOST_LINES,
    MOST_VARIABLES,
    Crontab,
    CrontabEntry,
    Untaken,
    entry_name,
    read_crontab,
)
from rota.model.trigger.fires import next_fire
from rota.model.trigger.rules import Cron, read_rule
from rota.model.trigger.schedule import Timing

ETC_CRONTAB = """\
# /etc/crontab: system-wide crontab

SHELL=/bin/sh
#PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin

# Example of job definition:
# .---------------- minute (0 - 59)
# *  *  *  *  * user-name command to be executed
17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly
25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
47 6\t* * 7\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }
52 6\t1 * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.monthly; }
#
"""

E2SCRUB_ALL = """\
30 3 * * 0 root test -e /run/systemd/system || SERVICE_MODE=1 /usr/lib/x86_64-linux-gnu/e2fsprogs/e2scrub_all_cron
10 3 * * * root test -e /run/systemd/system || SERVICE_MODE=1 /sbin/e2scrub_all -A -r
"""

SYSSTAT = """\
PATH=/usr/lib/sysstat:/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin

# Activity reports every 10 minutes everyday
5-55/10 * * * * root command -v debian-sa1 > /dev/null && debian-sa1 1 1
59 23 * * * root command -v debian-sa1 > /dev/null && debian-sa1 60 2
-*/15 * * * * www-data [ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean
@daily  backup$ /usr/local/bin/dump.sh
"""

PERSONAL = """\
MAILTO=anna@example.org
PATH = /usr/local/bin:/usr/bin:/bin
LANG="de_DE.UTF-8"

# m h dom mon dow command
*/5 * * * *  /opt/bin/poll --quiet >/dev/null 2>&1   # not a comment to cron
0 9-17/2 * jan,MAR-jun Mon-Fri  cd /srv/site && ./report.sh
0 4 1 * 0 tar czf /backup/site-$(date +\\%F).tgz /srv/site

CRON_TZ=America/New_York
TZ=Asia/Tokyo
30 16 * * 1-5 GREETING="good evening" '/opt/close of day/run' now
SHELL=/bin/bash
@weekly set -o pipefail; zcat a.gz | wc -l
@reboot /opt/bin/agent
0 8 * * * mail -s hello bob%Dear Bob,%how are you?
"""


def one(line: str, *, user_column: bool = False) -> CrontabEntry:
    found = read_crontab(line, user_column=user_column)
    assert not found.untaken, found.untaken
    (entry,) = found.entries
    return entry


def why(line: str, *, user_column: bool = False) -> str:
    found = read_crontab(line, user_column=user_column)
    assert not found.entries, found.entries
    (untaken,) = found.untaken
    return untaken.why


def env_of(*lines: str) -> dict[str, str]:
    return one("\n".join((*lines, "* * * * * x"))).env


def test_the_crontab_of_debian() -> None:
    found = read_crontab(ETC_CRONTAB, user_column=True)
    assert found.untaken == []
    assert [entry.line for entry in found.entries] == [9, 10, 11, 12]
    assert [entry.rule for entry in found.entries] == ["17 * * * *", "25 6 * * *", "47 6 * * 7", "52 6 1 * *"]
    assert {(entry.user, entry.shell, entry.zone) for entry in found.entries} == {("root", "/bin/sh", None)}
    assert found.entries[0].command == "cd / && run-parts --report /etc/cron.hourly"
    assert found.entries[0].env == {"SHELL": "/bin/sh"}
    assert [entry_name(entry).rpartition("-")[0] for entry in found.entries] == ["run-parts", "test", "test", "test"]


def test_files_of_cron_d() -> None:
    scrub = read_crontab(E2SCRUB_ALL, user_column=True)
    assert scrub.untaken == []
    assert scrub.entries[1].command == "test -e /run/systemd/system || SERVICE_MODE=1 /sbin/e2scrub_all -A -r"
    assert [(entry.rule, entry.env) for entry in scrub.entries] == [("30 3 * * 0", {}), ("10 3 * * *", {})]
    found = read_crontab(SYSSTAT, user_column=True)
    assert found.untaken == []
    assert [entry.rule for entry in found.entries] == ["5-55/10 * * * *", "59 23 * * *", "*/15 * * * *", "@daily"]
    assert [entry.user for entry in found.entries] == ["root", "root", "www-data", "backup$"]
    assert {entry.env["PATH"].partition(":")[0] for entry in found.entries} == {"/usr/lib/sysstat"}


def test_a_crontab_of_ones_own() -> None:
    found = read_crontab(PERSONAL)
    base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "de_DE.UTF-8"}
    evening = "GREETING=\"good evening\" '/opt/close of day/run' now"
    poll = "/opt/bin/poll --quiet >/dev/null 2>&1   # not a comment to cron"
    tokyo, bash, york = {**base, "TZ": "Asia/Tokyo"}, "/bin/bash", "America/New_York"
    assert found.entries == [
        CrontabEntry(6, "*/5 * * * *", None, "/bin/sh", poll, base, None),
        CrontabEntry(7, "0 9-17/2 * jan,MAR-jun Mon-Fri", None, "/bin/sh", "cd /srv/site && ./report.sh", base, None),
        CrontabEntry(8, "0 4 1 * 0", None, "/bin/sh", "tar czf /backup/site-$(date +%F).tgz /srv/site", base, None),
        CrontabEntry(12, "30 16 * * 1-5", york, "/bin/sh", evening, tokyo, None),
        CrontabEntry(14, "@weekly", york, bash, "set -o pipefail; zcat a.gz | wc -l", {**tokyo, "SHELL": bash}, None),
    ]
    assert [untaken.line for untaken in found.untaken] == [1, 15, 16]
    assert found.untaken[1].text == "@reboot /opt/bin/agent"
    assert [untaken.why.partition(";")[0] for untaken in found.untaken] == [
        "mail is not sent",
        "rota doesn't know when a machine starts",
        "standard input after % is not taken",
    ]


@pytest.mark.parametrize(
    ("line", "rule", "command"),
    [
        ("* * * * * x", "* * * * *", "x"),
        ("  \t1\t2  3 4\t 5 \t x  y \t", "1 2 3 4 5", "x  y"),
        ("00 05 * * * x", "00 05 * * *", "x"),
        ("1-10/3,30,*/20 0-23 1-7,15 JAN,feb 0-7 x", "1-10/3,30,*/20 0-23 1-7,15 JAN,feb 0-7", "x"),
        ("*/5 * * * sun,Mon x", "*/5 * * * sun,Mon", "x"),
        ("-0 0 * * * x", "0 0 * * *", "x"),
        ("-@hourly x", "@hourly", "x"),
        ("* * * * * FOO=bar cmd", "* * * * *", "FOO=bar cmd"),
        ("H H(0-7) * * * x", "H H(0-7) * * *", "x"),  # what we tell people to write instead of ~
        ("H/15 * * * * x", "H/15 * * * *", "x"),
        ("* * * * * échο ☃ 'naïve'", "* * * * *", "échο ☃ 'naïve'"),
    ],
)
def test_entries(line: str, rule: str, command: str) -> None:
    entry = one(line)
    assert (entry.rule, entry.command) == (rule, command)
    assert (entry.line, entry.zone, entry.shell, entry.env, entry.user) == (1, None, "/bin/sh", {}, None)
    assert read_rule(entry.rule) == Cron(rule)


@pytest.mark.parametrize("nickname", list(ALIASES))
def test_nicknames(nickname: str) -> None:
    assert (one(f"{nickname} x y").rule, one(f"{nickname}\tx y").command) == (nickname, "x y")


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (r"date +\%F_\%T", "date +%F_%T"),
        ("x %  \t", "x"),
        (r"x \% %", "x %"),
        (r"grep 'a\.b' \\n", r"grep 'a\.b' \\n"),
        (r"x \\\%", r"x \\%"),
        ("x \\", "x \\"),
        (r"x \\%", r"x \\"),  # the backslash is escaped, the % is not
    ],
)
def test_percent(given: str, command: str) -> None:
    assert one(f"* * * * * {given}").command == command


@pytest.mark.parametrize(
    "text", ["", "\n\n", " # * * * * * x", " \t \r\n#\r\n", "\ufeff# x", "# \0 \udc80", "#\r* * * * * x"]
)
def test_texts_without_entries(text: str) -> None:
    assert read_crontab(text) == Crontab([], [])


def test_endings_and_byte_order_marks() -> None:
    expected = [
        CrontabEntry(2, "* * * * *", "UTC", "/bin/sh", "x", {}, None),
        CrontabEntry(4, "@daily", "UTC", "/bin/sh", "y", {}, None),
    ]
    lines = ["CRON_TZ=UTC", "* * * * * x", "", "@daily y"]
    for text in ("\n".join(lines), "\n".join([*lines, ""]), "\r\n".join([*lines, ""]), "\ufeff" + "\r\n".join(lines)):
        assert read_crontab(text) == Crontab(expected, [])


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("  A \t=  b  c  ", "A", "b  c"),
        ('A="  b  "', "A", "  b  "),
        ("A='b \"c\"'  ", "A", 'b "c"'),
        ('"A" = b', "A", "b"),
        ("A=", "A", ""),
        ("A=$HOME/bin:~/x", "A", "$HOME/bin:~/x"),
        ("A=b # c", "A", "b # c"),
        ("A=it's", "A", "it's"),
        ("A=50%", "A", "50%"),
        (r"A=a\%b", "A", r"a\%b"),
        ("_x.y-1=ü", "_x.y-1", "ü"),
        ("SHELL=/bin/zsh", "SHELL", "/bin/zsh"),
        ("TZ=Nowhere/At all", "TZ", "Nowhere/At all"),  # is the command's, and no zone of ours
    ],
)
def test_variables(line: str, name: str, value: str) -> None:
    assert env_of(line) == {name: value}


@pytest.mark.parametrize("line", ['MAILTO=""', "MAILTO=", "MAILTO=' '", "MAILFROM=x@y", "LOGNAME=eve", "CRON_TZ=UTC"])
def test_variables_of_cron_itself_are_dropped(line: str) -> None:
    assert env_of(line) == {}


def test_variables_hold_for_what_is_below() -> None:
    found = read_crontab("@daily a\nX=1\n@daily b\nX=2\nSHELL=/bin/bash\n@daily c\nY=3\n@daily d")
    assert [entry.env for entry in found.entries] == [
        {},
        {"X": "1"},
        {"X": "2", "SHELL": "/bin/bash"},
        {"X": "2", "SHELL": "/bin/bash", "Y": "3"},
    ]
    assert [entry.shell for entry in found.entries] == ["/bin/sh", "/bin/sh", "/bin/bash", "/bin/bash"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("MAILTO=root", "mail is not sent; the output is kept with the job, see `rota job logs`"),
        ("RANDOM_DELAY=45", "--jitter"),
        ("CRON_WITHIN=60", "CRON_WITHIN has no effect"),
        ("START_HOURS_RANGE=3-22", "this is for anacron"),
        ("SHELL=", "SHELL is empty; name a shell such as /bin/sh"),
        ("CRON_TZ=Mars/Olympus", "time zone: 'Mars/Olympus' is not valid"),
        ("CRON_TZ=localtime", "time zone: "),
        ('CRON_TZ="Europe/Berlin', 'the value of CRON_TZ must end with the quote it begins with, "'),
        ("A='b", "the value of A must end with the quote it begins with, '"),
        ("A='b' c", "the value of A must end with the quote it begins with, '"),
        ("''=x", "'' can't be the name of a variable; use letters, digits and _"),
        ("'A B'=x", "'A B' can't be the name of a variable"),
        ("=x", "this is neither NAME=value nor minute"),
        ('"A=x', "this is neither NAME=value nor minute"),
    ],
)
def test_variables_that_are_not_taken(line: str, complaint: str) -> None:
    assert complaint in why(line)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("hello", "neither NAME=value nor minute, hour, day of month, month, day of week and a command; complete it"),
        ("* * * *", "this is neither NAME=value nor minute"),
        ("* * * * *", "there is no command after the times"),
        ("@daily", "there is no command after the times"),
        ("@daily %", "there is no command after the times"),
        ("* * * * * %x", "standard input after % is not taken"),
        ("* * * * * * x", "there are more than five fields of time"),
        ("@reboot x", "rota doesn't know when a machine starts"),
        ("@every_minute x", "cron: '@every_minute' is not valid; expected one of @yearly"),
        ("60 * * * * x", "cron field 1 (minute): '60' is not valid; expected 0-59"),
        ("0 24 * * * x", "cron field 2 (hour): '24' is not valid; expected 0-23"),
        ("0 0 * * 8 x", "cron field 5 (day of week): '8'"),
        ("0 22-4 * * * x", "a range that runs upwards; 4 comes before 22, so write 22-23,0-4"),
        ("*/0 * * * * x", "cron field 1 (minute): '*/0'"),
        ("0 0 30 2 * x", "a day that exists"),
        ("1,,2 * * * * x", "cron field 1 (minute): ''"),
        ("1 5 cron.daily nice run-parts /x", "cron: '1 5 cron.daily nice run-parts' is not valid"),
        ("0~30 * * * * x", "random times such as 0~30 are not taken; use H, or H(0-29)"),
        ("5/10 * * * * x", "crons differ in how they read 5/10; give the step a range"),
        ("0 9 L/2 * * x", "'L/2' is not valid; expected a step after *, a number or a range only"),
        ("0 0 * * monday/2 x", "crons differ in how they read monday/2"),
        ("0 0 * * 1,mon/2 x", "crons differ in how they read 1,mon/2"),
        ("* * * * * date +%F", "standard input after % is not taken; write \\% if % is meant"),
        (r"* * * * * x \\%y", "standard input after %"),
        # Blanks that only some take for blanks would make six fields of five, with seconds first.
        ("0\xa00 * * * 1 x", r"'0\xa00' has characters that times can't have"),
        ("٣ * * * * x", "has characters that times can't have"),
        # Rules of rota that are no cron.
        ("every 5m from 2027-01-01T00:00:00Z , x", "is not valid"),
        ("at 2027-01-01T00:00:00Z, 2027-01-02T00:00:00Z, 2027-01-03T00:00:00Z, 2027-01-04T00:00:00Z x", "cron: 'at "),
        ("* * * * * a\0b", r"the character '\x00' is not taken; remove it, and save the file as UTF-8"),
        ("* * * * * a\udcffb", r"the character '\udcff' is not taken"),
        ("* * * * * a\ufffdb", r"the character '\ufffd' is not taken"),
        ("* * * * * a\x1b[2Jb", r"the character '\x1b' is not taken"),
        ("* * * * * a\rb", r"the character '\r' is not taken"),
        ("@daily\x0b x", r"the character '\x0b' is not taken"),
        ("* * * * * " + "x" * LONGEST_LINE, "the line has 30,010 characters, 30,000 are taken; put it into a script"),
        ("1," * 600 + "1 * * * * x", "cron: "),
    ],
)
def test_entries_that_are_not_taken(line: str, complaint: str) -> None:
    assert complaint in why(line)


@pytest.mark.parametrize("user", ["root", "www-data", "_apt", "a.b", "Svc_1", "machine$"])
def test_users(user: str) -> None:
    for times in ("0 5 * * *", "@daily"):
        entry = one(f"{times} \t{user}  x y", user_column=True)
        assert (entry.user, entry.command) == (user, "x y")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("* * * * * /usr/bin/x y", "'/usr/bin/x' is not the name of a user; is there a user column?"),
        ("* * * * * A=b x", "'A=b' is not the name of a user"),
        ("* * * * * 1000 x", "'1000' is not the name of a user"),
        ("* * * * * root:wheel x", "'root:wheel' is not the name of a user"),
        ("* * * * * backup", "there is no command after the user backup; add one, or read the file without"),
        ("* * * * *", "there is no command after the times"),
        ("@daily", "there is no command after the times"),
    ],
)
def test_users_that_are_none(line: str, complaint: str) -> None:
    assert complaint in why(line, user_column=True)


def test_zones() -> None:
    found = read_crontab("@daily a\nCRON_TZ = 'Europe/Berlin'\n@daily b\nCRON_TZ=UTC\n@daily c\nCRON_TZ=\n@daily d")
    assert [entry.zone for entry in found.entries] == [None, "Europe/Berlin", "UTC", None]


@pytest.mark.parametrize("line", ["CRON_TZ=Nowhere", '"CRON_TZ" = "UTC', "CRON_TZ=UTC\0", "CRON_TZ=" + "x" * 40_000])
def test_below_a_zone_that_is_not_known_nothing_is_taken(line: str) -> None:
    found = read_crontab(f"CRON_TZ=UTC\n@daily a\n{line}\nX=1\n@daily b\n60 * * * * c\nCRON_TZ=UTC\n@daily d")
    assert [(entry.command, entry.zone) for entry in found.entries] == [("a", "UTC"), ("d", "UTC")]
    assert [untaken.line for untaken in found.untaken] == [3, 5, 6]
    reason = "the time zone of line 3 was not taken, and this is meant in it; correct line 3"
    assert found.untaken[1] == Untaken(5, "@daily b", reason)
    assert "'60'" in found.untaken[2].why  # its own trouble comes first


def test_what_is_shown_of_a_line() -> None:
    assert read_crontab(" \tnot\tan entry \r\n").untaken[0].text == "not\tan entry"
    assert read_crontab("x\0\x1b[2J\udcff\u202e").untaken[0].text == "x\\x00\\x1b[2J\\udcff\\u202e"
    long = read_crontab("x" * 500_000).untaken[0].text
    assert (len(long), long[-4:]) == (200, "x...")
    msgspec.json.encode(read_crontab("\udcff \ufffd \ud800"))


def test_sizes_are_bounded() -> None:
    assert len(read_crontab("@daily x\n" * MOST_LINES).entries) == MOST_LINES
    with pytest.raises(InvalidInput, match="crontab: '10,001 lines' is not valid; expected at most 10,000 lines"):
        read_crontab("\n" * MOST_LINES + "x")
    with pytest.raises(InvalidInput, match="crontab: '1,000,001 characters'"):
        read_crontab("#" * 1_000_001)
    assert read_crontab("#" * 1_000_000) == Crontab([], [])
    many = read_crontab("".join(f"V{number}=x\n@daily x\n" for number in range(MOST_LINES // 2)))
    assert len(many.entries[-1].env) == MOST_VARIABLES
    assert len(many.untaken) == MOST_LINES // 2 - MOST_VARIABLES
    assert env_of(*(f"V{number}=x" for number in range(MOST_VARIABLES)), "V0=y")["V0"] == "y"


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/usr/bin/backup --all", "backup"),
        ("A=1 B='x y' C=\"z /q\" D= /opt/run me", "run"),
        ("cd /srv/app && ./manage.py tick", "manage.py"),
        ("cd /srv/app; A=1 python3 -m x", "python3"),
        ("cd", "cd"),
        ("(sleep 5; x)", "sleep"),
        ("'/opt/my app/run'", "my"),
        ("[ -x /y ] && /y", "command"),
        ("naïve", "na-ve"),
        ("A=1 ", "A-1"),
    ],
)
def test_names_begin_with_the_program(command: str, program: str) -> None:
    assert re.fullmatch(re.escape(program) + "-[0-9a-f]{8}", entry_name(one(f"@daily {command}")))


def test_names_are_those_of_earlier_imports() -> None:
    entry = CrontabEntry(7, "0 3 * * *", "Europe/Berlin", "/bin/sh", "/opt/backup --all", {"B": "2", "A": "1"}, None)
    assert entry_name(entry) == "backup-50eefb78"
    assert entry_name(entry, "cron.") == "cron.backup-50eefb78"
    assert entry_name(msgspec.structs.replace(entry, line=8, env={"A": "1", "B": "2"})) == "backup-50eefb78"
    others = [
        msgspec.structs.replace(entry, rule="1 3 * * *"),
        msgspec.structs.replace(entry, zone=None),
        msgspec.structs.replace(entry, command="/opt/backup --most"),
        msgspec.structs.replace(entry, env={"A": "1"}),
        msgspec.structs.replace(entry, user="root"),
    ]
    assert len({entry_name(other) for other in (entry, *others)}) == 6


@given(st.text(min_size=1, max_size=300).filter(str.strip), st.text(max_size=300))
@example("x" * 300, "y" * 300)
@example("-", "--")
def test_names_are_safe(command: str, prefix: str) -> None:
    for entry in read_crontab("@daily " + command.replace("\n", " ")).entries:
        assert re.fullmatch(r"[A-Za-z0-9._][A-Za-z0-9._-]*-[0-9a-f]{8}", entry_name(entry, prefix))
        assert len(entry_name(entry, prefix)) <= 200


CHARACTERS = "*5-/,~%\\='\"#xLHé \t\r\n\0\udc80\x85\u2028\ufeff"
WORDS = ["\\%", "A=", "CRON_TZ=", "UTC", "MAILTO=", "SHELL=", "* * * * * ", "@daily ", "root ", "mon", "\n@daily x"]
PIECES = st.sampled_from([*CHARACTERS, *WORDS])


@given(st.text() | st.lists(PIECES, max_size=60).map("".join), st.booleans())
def test_any_text_is_read_and_no_line_is_lost(text: str, user_column: bool) -> None:
    found = read_crontab(text, user_column=user_column)
    lines = dict(enumerate(text.removeprefix("\ufeff").split("\n"), start=1))
    said = {number for number, line in lines.items() if line.strip(" \t\r") and line.strip(" \t\r")[0] != "#"}
    told = [entry.line for entry in found.entries] + [untaken.line for untaken in found.untaken]
    assert len(told) == len(set(told))
    assert set(told) <= said
    for number in said - set(told):
        assert re.match(r"""[ \t\r]*(["']?)[A-Za-z_][A-Za-z0-9_.-]*\1[ \t]*=""", lines[number])
    for entry in found.entries:
        Timing(name=entry_name(entry), rule=read_rule(entry.rule), zone=entry.zone or "UTC")
        Spec.command([entry.shell, "-c", entry.command], env=entry.env)
        assert (entry.user is not None) == user_column
    msgspec.json.encode(found)


@pytest.mark.parametrize(
    ("times", "day"),
    [
        ("0 0 13 * 1", "2027-08-02"),  # a Monday, or the 13th
        ("0 0 2-31 * 0", "2027-08-01"),  # a Sunday, or not the 1st
        ("0 0 13 * *", "2027-08-13"),
        ("0 0 * * 5", "2027-08-06"),
        ("0 0 */4 * 1", "2027-08-09"),  # both: a field that begins with * restricts nothing by itself
    ],
)
def test_a_day_matches_by_month_or_by_week_as_in_cron(times: str, day: str) -> None:
    schedule = Timing(name="x", rule=read_rule(one(f"{times} x").rule))
    assert next_fire(schedule, instant("2027-07-31T23:59:59Z")) == instant(f"{day}T00:00:00Z")
