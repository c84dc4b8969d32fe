"""The verbs of admission and of exclusion: gates, limits, queues, locks."""

from __future__ import annotations

from rota.cli.grammar import Parser, Verbs, count, verb, whole


def gate(verbs: Verbs) -> None:
    verb(verbs, "list", "gate", "list the gates that are closed, oldest first")
    _close(verbs, "pause", "hold matching jobs back until the gate opens; what runs already goes on")
    _close(verbs, "drop", "end matching jobs that wait or come, as dropped, until the gate opens")
    opening = verb(verbs, "open", "gate", "open a gate; what it held goes on")
    opening.add_argument("gate", metavar="ID", help="an id, or a beginning or end of it that fits no other")


def _close(verbs: Verbs, name: str, text: str) -> None:
    usage = "(--all | [--task GLOB] [--queue QUEUE] [--user USER] [--label LABEL]) --reason TEXT [options]"
    parser = verb(verbs, name, "gate", text, usage)
    parser.add_argument("--task", metavar="GLOB", help="tasks of this name; * and ? match anything")
    parser.add_argument("--queue", metavar="QUEUE", help="jobs of this queue")
    parser.add_argument("--user", metavar="USER", help="jobs of this user")
    parser.add_argument("--label", metavar="LABEL", help="jobs with this label")
    parser.add_argument("--all", action="store_true", help="all jobs; otherwise all that is given must fit")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why, for whoever looks at them")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--until", metavar="TIME", help="it opens by itself then: ISO 8601 with offset")
    end.add_argument("--for", metavar="DURATION", dest="for_", help="it opens by itself after this long: 90s, 5m, 2h")


def limit(verbs: Verbs) -> None:
    listing = verb(verbs, "list", "limit", "list keys that have a limit, are held, or are waited for", "[KEY...]")
    listing.add_argument("keys", metavar="KEY", nargs="*", help="only these keys")
    setting = verb(verbs, "set", "limit", "bound a key from now on, whatever its jobs bring along")
    _key(setting)
    setting.add_argument("--at-once", metavar="N", type=whole, help="so many of its jobs may run at once")
    setting.add_argument("--rate", metavar="N/WINDOW", help="so many may start in any window of this length: 60/1m")
    removing = verb(verbs, "remove", "limit", "forget what was set for a key; its jobs have their own bounds again")
    _key(removing)


def _key(parser: Parser) -> None:
    parser.add_argument("key", metavar="KEY", help="the key, as jobs have it: with their arguments filled in")


def lock(verbs: Verbs) -> None:
    verb(verbs, "list", "lock", "list your locks, held ones first")
    releasing = verb(verbs, "release", "lock", "free a lock whose holder hangs; the holder loses it")
    releasing.add_argument("lock", metavar="NAME", help="the name of the lock")
    releasing.add_argument("--yes", "-y", action="store_true", help="don't ask")
    text = "run a command here while a lock is held, and exit with its exit code; end it when the lock is lost"
    running = verb(verbs, "run", "lock_run", text, "NAME [options] -- CMD...")
    running.add_argument("lock", metavar="NAME", help="the name of the lock")
    running.add_argument(
        "--ttl", metavar="DURATION", default="30s", help="it lasts so long if we die, 1s to 1h; renewed meanwhile (30s)"
    )
    running.add_argument("--wait", metavar="DURATION", help="how long to wait for it: 0s tries once (for ever)")
    running.set_defaults(takes_command=True)


def queue(verbs: Verbs) -> None:
    verb(verbs, "list", "queue", "list queues: what waits and runs in them, who serves them, what is paused")
    pause = verb(verbs, "pause", "queue", "start nothing of a queue until it is resumed; what runs already goes on")
    pause.add_argument("--note", metavar="TEXT", help="why, for whoever looks at it")
    resume = verb(verbs, "resume", "queue", "let a paused queue go on")
    setting = verb(verbs, "set", "queue", "how a queue ranks its jobs: by its own ageing step, by feedback levels")
    setting.add_argument(
        "--step", metavar="DURATION", help="what one step of priority outweighs: 10s, 0s (first come), strict, default"
    )
    setting.add_argument(
        "--feedback",
        metavar="on|off",
        choices=("on", "off"),
        help="users' tasks that use many slots fall behind those that use few",
    )
    setting.add_argument("--quantum", metavar="DURATION", help="slot-time before the first level is lost (10s)")
    setting.add_argument("--levels", metavar="N", type=whole, help="levels to lose, 1 to 5 (5)")
    setting.add_argument("--boost", metavar="DURATION", help="after this long all start again at the first (60s)")
    for parser in (pause, resume, setting):
        parser.add_argument("queue", metavar="QUEUE", help="the name of the queue")


def flow(verbs: Verbs) -> None:
    listing = verb(verbs, "list", "flow", "list flows that have used slots of queues with feedback")
    listing.add_argument("--limit", metavar="N", type=count, default=50, help="show at most N (50)")
