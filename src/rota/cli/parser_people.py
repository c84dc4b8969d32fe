"""The verbs about users, access keys and the audit."""

from __future__ import annotations

from rota.cli.grammar import Parser, Verbs, count, verb

QUOTA = "its bounds: submissions=600/1m,waiting=10000,schedules=100,running=8,output=2GB"
ROLES = ("viewer", "submitter", "operator", "admin", "worker")


def user(verbs: Verbs) -> None:
    add = verb(verbs, "add", "user", "add a user; `rota key add` gives it access")
    verb(verbs, "list", "user", "list users, with their keys and quotas")
    show = verb(verbs, "show", "user", "show a user with its keys")
    setting = verb(verbs, "set", "user", "change the quotas of a user; those not named stay")
    remove = verb(verbs, "remove", "user", "remove a user and revoke its keys; its jobs stay")
    for parser in (add, show, setting, remove):
        parser.add_argument("user", metavar="USER", help="the name of the user")
    add.add_argument("--quota", metavar="NAME=BOUND,...", help=QUOTA)
    setting.add_argument("--quota", metavar="NAME=BOUND,...", required=True, help=f"{QUOTA}; none lifts one")


def key(verbs: Verbs) -> None:
    _add_key(verb(verbs, "add", "key", "make an access key and print it, once", "--user USER --role ROLE [options]"))
    listing = verb(verbs, "list", "key", "list access keys that live")
    listing.add_argument("--user", metavar="USER", help="only keys of this user")
    listing.add_argument("--past", action="store_true", help="also keys that expired or were revoked")
    revoke = verb(verbs, "revoke", "key", "end access keys at once", "ID...")
    revoke.add_argument("keys", metavar="ID", nargs="+", help="the id of a key: rota_ID_...")
    rotate = verb(verbs, "rotate", "key", "make a key with the same rights and print it, once; the old one ends later")
    rotate.add_argument("key", metavar="ID", help="the id of the key: rota_ID_...")
    rotate.add_argument("--overlap", metavar="DURATION", default="24h", help="how long the old key lives on (24h)")
    rotate.add_argument("--expires", metavar="DURATION", help="how long the new key lives (as long as the old one)")


def _add_key(parser: Parser) -> None:
    parser.add_argument("--user", metavar="USER", required=True, help="the user that it acts for")
    parser.add_argument("--role", metavar="ROLE", required=True, choices=ROLES, help=", ".join(ROLES))
    parser.add_argument("--queues", metavar="GLOB,...", help="only orders in these queues, or claims of a worker")
    parser.add_argument("--tasks", metavar="GLOB,...", help="only orders of these registered tasks")
    parser.add_argument(
        "--allow", metavar="PERMISSION,...", help="beyond the role: commands, calls, os-users, output, audit"
    )
    parser.add_argument("--expires", metavar="DURATION", help="how long it lives, such as 90d (until it is revoked)")
    parser.add_argument("--name", metavar="TEXT", default="", help="what it is for, for people")


def audit(parser: Parser) -> None:
    parser.add_argument("--user", metavar="USER", help="what this user did")
    parser.add_argument("--deed", metavar="DEED", help="only this: cancel, pause_queue, put_schedule, add_key, ...")
    parser.add_argument("--since", metavar="WHEN", help="from then on: a duration such as 2h, or ISO 8601 with offset")
    parser.add_argument("--until", metavar="WHEN", help="before then")
    parser.add_argument("--limit", metavar="N", type=count, default=50, help="show at most N (50)")
