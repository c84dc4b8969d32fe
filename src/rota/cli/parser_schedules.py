"""The verbs of schedules and calendars."""

from __future__ import annotations

import argparse

from rota.cli.grammar import Parser, Verbs, command, count, function, http, noun, order, verb

RULE = "when: '0 3 * * *', @daily, 'every 90s', 'FREQ=WEEKLY;BYDAY=MO', 'at 2027-01-01T09:00:00Z'"


def schedule(verbs: Verbs) -> None:
    _add(verbs)
    listing = verb(verbs, "list", "schedule_views", "list schedules in the order of their names")
    listing.add_argument("--app-name", metavar="NAME", help="only those that the app of this name declares")
    _name(verb(verbs, "show", "schedule_views", "show all there is to see of a schedule"))
    _next(verbs)
    pause = verb(verbs, "pause", "schedule", "skip the fires of schedules from now on")
    _names(pause)
    pause.add_argument("--note", metavar="TEXT", help="why, for whoever looks at them")
    _names(verb(verbs, "resume", "schedule", "let paused schedules fire again, and broken ones that were mended"))
    fire = verb(verbs, "fire", "schedule", "make a job of a schedule now, beside its rule, and print the job's id")
    _name(fire)
    fire.add_argument("--wait", action="store_true", help="wait for its end; exit 1 unless it succeeds")
    _backfill(verbs)
    history = verb(verbs, "history", "schedule_views", "show what became of the fires of a schedule, latest first")
    _name(history)
    history.add_argument("--limit", metavar="N", type=count, default=100, help="at most so many (100)")
    _import(noun(verbs, "import", "take over schedules from elsewhere"))
    _names(verb(verbs, "remove", "schedule", "remove schedules; jobs that they made stay as they are"))


def _add(verbs: Verbs) -> None:
    usage = "NAME RULE [options] (TASK [JSON] | --http METHOD URL | -- CMD...)"
    add = verb(verbs, "add", "schedule", "keep a rule under a name: jobs are made at its times", usage)
    _name(add)
    add.add_argument("rule", metavar="RULE", help=RULE)
    function(add)
    add.add_argument("--replace", action="store_true", help="put it in the place of what has that name")
    add.add_argument("--paused", action="store_true", help="don't let it fire before it is resumed")
    add.add_argument("--note", metavar="TEXT", help="why it is paused")
    _times(add)
    group = add.add_argument_group("what gets in its way")
    group.add_argument(
        "--overlap", metavar="POLICY", help="while its last job still lives: allow, skip, queue, replace (allow)"
    )
    group.add_argument(
        "--catch-up", metavar="WHICH", help="fires that were missed, to be made up for: none, latest, all (latest)"
    )
    group.add_argument("--catch-up-window", metavar="DURATION", help="don't make up for older ones")
    group.add_argument("--catch-up-max", metavar="N", type=count, help="make up for so many, the newest (100)")
    order(add, "3, or what TASK says", "schedule")
    command(add)
    http(add)


def _times(parser: Parser) -> None:
    group = parser.add_argument_group("when it fires")
    group.add_argument("--tz", metavar="ZONE", help="the time zone that the rule is meant in (UTC)")
    group.add_argument(
        "--gap", metavar="POLICY", help="local times that don't exist: skip, or shift to the end of the gap (shift)"
    )
    group.add_argument("--fold", metavar="POLICY", help="local times that happen twice: first, second, both (first)")
    group.add_argument("--start", metavar="TIME", help="not before then: ISO 8601 with offset")
    group.add_argument("--end", metavar="TIME", help="not after then")
    group.add_argument("--jitter", metavar="DURATION", help="run each fire later by up to this much")
    group.add_argument("--limit", metavar="N", type=count, help="fire so many times, then never again")
    group.add_argument("--exclude", metavar="NAMES", help="not on the dates of these calendars, separated by commas")
    group.add_argument("--only", metavar="NAMES", help="only on dates that are in all of these calendars")


def _next(verbs: Verbs) -> None:
    usage = "(NAME | --rule RULE [options]) [-n N]"
    text = "show the next fires of a schedule, in its time zone and in UTC"
    upcoming = verb(verbs, "next", "schedule_views", text, usage)
    upcoming.add_argument(
        "schedule", metavar="NAME", nargs="?", help="the schedule; with --rule: the name that H in a rule goes by"
    )
    upcoming.add_argument("-n", metavar="N", type=count, default=10, help="so many (10)")
    upcoming.add_argument("--rule", metavar="RULE", help="a rule to try out, instead of a schedule")
    _times(upcoming)


def _backfill(verbs: Verbs) -> None:
    text = "make the fires of a time that has passed, as far as they were not made"
    backfill = verb(verbs, "backfill", "schedule", text)
    _name(backfill)
    backfill.add_argument(
        "--from", metavar="TIME", dest="from_", required=True, help="the first instant: ISO 8601 with offset"
    )
    backfill.add_argument("--to", metavar="TIME", required=True, help="the last instant")
    backfill.add_argument("--dry-run", action="store_true", help="only say how many; change nothing")
    backfill.add_argument("--yes", "-y", action="store_true", help="also if they are more than 10,000")


def _import(verbs: Verbs) -> None:
    crontab = verb(
        verbs,
        "crontab",
        "schedule_import",
        "make a schedule of each line of a crontab; say which lines could not be taken",
    )
    crontab.add_argument("file", metavar="FILE", help="the crontab; - reads standard input")
    crontab.add_argument(
        "--user-column",
        action=argparse.BooleanOptionalAction,
        help="a user stands before each command (yes for /etc/crontab and files in a folder cron.d)",
    )
    crontab.add_argument(
        "--any-user", action="store_true", help="take lines of other users too; they run as the node's user"
    )
    crontab.add_argument("--tz", metavar="ZONE", help="the time zone of all lines (CRON_TZ, or that of this machine)")
    crontab.add_argument("--prefix", metavar="TEXT", default="", help="begin the names of the schedules with this")
    crontab.add_argument("--dry-run", action="store_true", help="only say what would be taken; change nothing")
    order(crontab, "0", "schedule")
    _take_over(verbs, "celery-beat", "celery_beat_", "the beat_schedule of a Celery app", "MODULE:APP")
    _take_over(verbs, "apscheduler", "apscheduler_", "the jobs of an APScheduler 3 scheduler", "MODULE:SCHEDULER")


def _take_over(verbs: Verbs, name: str, function: str, what: str, target: str) -> None:
    text = f"make schedules of {what}, for tasks of the same names; say which could not be taken"
    parser = verb(verbs, name, "schedule_takeover", text)
    parser.set_defaults(function=function, verb=name)
    parser.add_argument("target", metavar=target, help="imported here, from this folder or the Python path")
    parser.add_argument("--app", metavar="MODULE[:APP]", help="the rota app with the tasks (those that nodes offered)")
    renames = "the task OLD is called NEW here; may be repeated"
    parser.add_argument("--map", metavar="OLD=NEW", action="append", default=[], help=renames)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be taken; change nothing")


def calendar(verbs: Verbs) -> None:
    usage = "NAME (--dates DATE,... | --ics FILE [--from DATE] [--to DATE] [--tz ZONE])"
    add = verb(verbs, "add", "calendar", "keep a calendar, in the place of one that has its name", usage)
    add.add_argument("calendar", metavar="NAME", help="what schedules call it in --exclude and --only")
    source = add.add_mutually_exclusive_group(required=True)
    source.add_argument("--dates", metavar="DATE,...", help="the dates, such as 2027-12-24,2027-12-31")
    source.add_argument("--ics", metavar="FILE", help="all days that events in an .ics file touch; - reads stdin")
    add.add_argument("--from", metavar="DATE", dest="from_", help="with --ics: from this day on (today)")
    add.add_argument("--to", metavar="DATE", help="with --ics: up to this day (ten years after the first)")
    add.add_argument("--tz", metavar="ZONE", help="with --ics: the time zone to see times of events from (UTC)")
    verb(verbs, "list", "calendar", "list calendars")
    show = verb(verbs, "show", "calendar", "show the dates of a calendar")
    remove = verb(verbs, "remove", "calendar", "remove a calendar that no schedule needs")
    for parser in (show, remove):
        parser.add_argument("calendar", metavar="NAME", help="a calendar")


def _name(parser: Parser) -> None:
    parser.add_argument("schedule", metavar="NAME", help="the name of the schedule")


def _names(parser: Parser) -> None:
    parser.add_argument("schedules", metavar="NAME", nargs="+", help="the name of a schedule")
