"""Parts of the parsers of verbs. Imports only argparse and the table of options, so that `--help` is fast."""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from rota.cli.show import complain
from rota.model.option_table import CALLS, COMMANDS, FOR_CALLS, JOBS, NAME, Option, Place

Verbs = Any  # argparse has no public name for what add_subparsers returns
# `-user:ann`, `-(a OR b)`, `-"a text"`: conditions of queries, which argparse would take for options.
_NEGATED = re.compile(r'-(?:[A-Za-z][A-Za-z0-9_]+(?:\.[^:=<>~]+)?(?:[:=<>~]|!=|!~)|[("/])')
_MARK = "\0"  # no argument of a shell can hold it


class Parser(argparse.ArgumentParser):
    """A parser whose usage errors are one line: the error, and where to read the usage."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = sys.argv[1:] if args is None else args
        if self.get_default("takes_query"):
            words = [_marked(word, before) for before, word in zip(("", *words), words, strict=False)]
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        complain(f"{message.removeprefix('argument ')} (see `{self.prog} --help`)")
        self.exit(2)


def _marked(word: str, before: str) -> str:
    signed = _NEGATED.match(word) or (before == "--sort" and re.match("-[A-Za-z]", word))  # --sort -finished
    return f"{_MARK}{word}" if signed else word


def gather(args: argparse.Namespace, extras: Iterable[str]) -> None:
    """Gives `rest` all positional words in their order: argparse stops at an option, and leaves over what follows."""
    words = list(getattr(args, args.rest))
    for name in args.late:
        if (word := getattr(args, name)) is not None:
            words.append(word)
            setattr(args, name, None)
    setattr(args, args.rest, [word.removeprefix(_MARK) for word in (*words, *extras)])
    for name, value in vars(args).items():
        if isinstance(value, str):
            setattr(args, name, value.removeprefix(_MARK))


@functools.cache
def everywhere(store: object = argparse.SUPPRESS, json: object = argparse.SUPPRESS) -> argparse.ArgumentParser:
    """The options of every verb, before or after its name. SUPPRESS: the verb's parser must not reset options given
    before it."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--store", metavar="URL", default=store, help="the store (ROTA_STORE; sqlite:///rota.db)")
    parent.add_argument("--json", action="store_true", default=json, help="print JSON instead of text")
    return parent


def add_verbs(parser: argparse.ArgumentParser) -> Verbs:
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def noun(verbs: Verbs, name: str, text: str) -> Verbs:
    return add_verbs(verbs.add_parser(name, help=text, description=_sentence(text), parents=[everywhere()]))


def verb(verbs: Verbs, name: str, module: str, text: str, usage: str | None = None) -> Parser:
    """Adds a verb. `takes_command`: words after `--` belong to it; `late`: its positional words that may follow
    options; `rest`: the one that takes any number of them, wherever they stand; `takes_query`: they may be a query;
    `of_output`: one for output."""
    parser: Parser = verbs.add_parser(name, help=text, description=_sentence(text), parents=[everywhere()])
    if usage:
        parser.usage = f"{parser.prog} {usage}"
    parser.set_defaults(module=module, function=f"{name}_", parser=parser, takes_command=False, late=())
    parser.set_defaults(rest="", takes_query=False, of_output=False)
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def count(text: str) -> int:
    number = whole(text)
    if not 1 <= number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000000")
    return number


_KINDS: dict[str, dict[str, Any]] = {"text": {}, "whole": {"type": whole}, "many": {"action": "append"}}


def order(parser: Parser, retries: str, place: Place = "order", functions: bool = True) -> None:
    """Adds the options of a job that are allowed in a place. `retries`: the default of `--retries` for this verb;
    `functions`: whether it takes functions."""
    _flags(parser, [one for one in JOBS if functions or not one.functions], place, retries)
    parser.set_defaults(place=place, **{one.name: None for one in JOBS if one.functions and not functions})


def _flags(parser: Parser, options: Iterable[Option], place: Place = "order", retries: str = "") -> None:
    groups: dict[str, Any] = {"": parser} | {str(group.title): group for group in parser._action_groups}
    for one in options:
        if not one.metavar or place not in one.places:
            continue
        if one.group not in groups:
            groups[one.group] = parser.add_argument_group(one.group)
        if one.either and one.either not in groups:
            groups[one.either] = groups[one.group].add_mutually_exclusive_group()
        text = one.help_with(retries if one.name == "retries" else one.default)
        group = groups[one.either or one.group]
        group.add_argument(one.flag_at(place), metavar=one.metavar, dest=one.name, help=text, **_KINDS[one.kind])


def function(parser: Parser) -> None:
    """Arguments for the function of a job."""
    parser.add_argument("task", metavar="TASK", nargs="?", help="the name of a function that a node or --app offers")
    parser.add_argument(
        "json_arguments", metavar="JSON", nargs="?", help="its arguments as a JSON object; @FILE reads a file, - stdin"
    )
    parser.add_argument("--app", metavar="MODULE[:APP]", help="take TASK from this rota.App")
    parser.set_defaults(late=("task", "json_arguments"))


def command(parser: Parser) -> None:
    """Arguments for the command of a job."""
    _flags(parser, (NAME, *COMMANDS))
    parser.set_defaults(takes_command=True)


def http(parser: Parser) -> None:
    """Arguments for the HTTP call of a job."""
    group = parser.add_argument_group(FOR_CALLS)
    group.add_argument(
        "--http", nargs=2, metavar=("METHOD", "URL"), help="make this call: --http POST https://example.com/hook"
    )
    _flags(parser, CALLS)
