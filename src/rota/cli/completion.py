"""Shell completion: `rota completion SHELL` prints a script, which asks `rota __complete WORD...` at each Tab.

`__complete` gets the words of the line up to the cursor. It answers with a line per candidate: the word, a tab, and a
description. Verbs, options and choices come from the parser; ids and names from the store; conditions of queries from
the language (`model.query.complete`), and their values from the store. A Tab must be quick and silent: it never creates
or migrates a store, it gives up after `PATIENCE`, and any error means no candidates.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.cli.parser import build
from rota.errors import RotaError
from rota.model.graph import Need
from rota.model.lifecycle import State

if TYPE_CHECKING:
    from rota.clients.jobs import JobsClient
    from rota.model.query.complete import AskedValues

PATIENCE = 0.4  # seconds for the store
LATEST = 0.5  # seconds until the process ends in any case
MOST = 100
Candidate = tuple[str, str]  # a word and its description
Read = Callable[..., Awaitable[list[Candidate]]]  # from a client
Ask = Callable[[str, str | None], list[Candidate]]  # a source of names, of the store at this address

SCRIPTS = {
    "bash": r"""# bash completion for rota: eval "$(rota completion bash)"
_rota() {
    local line part rest=$COMP_LINE word
    local -a words
    COMPREPLY=()
    # bash also breaks words at : and =, and completes what follows: `state:fa` comes as three words.
    for part in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -eq 0 || -z $rest || $rest == [[:blank:]]* ]]; then
            words+=("$part")
        else
            words[${#words[@]}-1]+=$part
        fi
        rest=${rest#"${rest%%[![:blank:]]*}"}
        rest=${rest#"$part"}
    done
    word=${words[${#words[@]}-1]}
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"${word%"${word##*[:=]}"}"}")
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[.:=\>\<~] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o bashdefault -o default -F _rota rota
""",
    "zsh": r"""#compdef rota
# zsh completion for rota: eval "$(rota completion zsh)"
_rota() {
    local line word
    local -a found open
    for line in "${(@f)$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        word=${line%%$'\t'*}
        [[ -n $line ]] || continue
        if [[ $word == *[.:\>] ]]; then
            open+=("${word//:/\\:}:${line#*$'\t'}")
        else
            found+=("${word//:/\\:}:${line#*$'\t'}")
        fi
    done
    if (( ${#found} + ${#open} == 0 )); then _files; return; fi
    (( ${#open} )) && _describe rota open -S ''
    (( ${#found} )) && _describe rota found
    return 0
}
if [[ ${funcstack[1]} == _rota ]]; then _rota "$@"; else compdef _rota rota; fi
""",
    "fish": r"""# fish completion for rota: rota completion fish | source
function __rota_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    $before[1] __complete $before[2..-1] "$current" 2>/dev/null
end
complete -c rota -k -a '(__rota_complete)'
""",
}


async def completion_(args: argparse.Namespace) -> int:
    print(SCRIPTS[args.shell], end="")
    return 0


def answer(words: Sequence[str]) -> int:
    """The call of the scripts."""
    for word, text in candidates(words, _ask_in_time):
        print(f"{word}\t{text}")
    return 0


def candidates(words: Sequence[str], ask: Ask) -> list[Candidate]:
    """The words that may stand in the place of the last one."""
    *before, current = words or [""]
    if "--" in before:
        return []
    parser, pending, position, given = _walk(build(), before)
    if pending is None and _may_be_condition(parser, current, position, given):
        return _conditions(parser, current, before, ask)
    if pending is not None:
        found = _values(parser, pending, before, ask)
    elif current.startswith("-"):
        found = list(_options(parser, given))
    elif (verbs := _verbs(parser)) is not None:
        found = [(choice.dest, choice.help or "") for choice in verbs._choices_actions]
    elif (argument := _positional(parser, position)) is not None:
        found = _values(parser, argument, before, ask)
    else:
        found = []
    several = pending is not None and pending.dest in ("state", "columns")
    head, comma, tail = current.rpartition(",") if several else ("", "", current)
    return [(head + comma + word, text) for word, text in found if word.startswith(tail)]


def _may_be_condition(parser: argparse.ArgumentParser, current: str, position: int, given: set[str]) -> bool:
    """Whether the word belongs to a query: `--all` makes one of what would be ids."""
    if current == "-" or current.startswith("--") or not parser.get_default("takes_query"):
        return False
    argument = _positional(parser, position)
    return argument is not None and (argument.dest == "query" or (argument.dest == "ids" and "all" in given))


def _conditions(parser: argparse.ArgumentParser, current: str, before: Sequence[str], ask: Ask) -> list[Candidate]:
    from rota.cli.query_completion import conditions

    def values(asked: AskedValues) -> list[str]:
        return [value for value, _ in _asked(f"values {asked.field} {asked.prefix}", before, ask)]

    return conditions(current, values, bool(parser.get_default("of_output")))


def _walk(
    parser: argparse.ArgumentParser, words: Iterable[str]
) -> tuple[argparse.ArgumentParser, argparse.Action | None, int, set[str]]:
    """The parser of the verb, the option that still needs its value, the number of positional words, and the options
    that were given."""
    pending: argparse.Action | None = None
    missing = position = 0
    given: set[str] = set()
    for word in words:
        verbs = _verbs(parser)
        if missing:
            missing -= 1
            pending = pending if missing else None
        elif word in parser._option_string_actions:
            action = parser._option_string_actions[word]
            given.add(action.dest)
            missing = action.nargs if isinstance(action.nargs, int) else int(action.nargs is None)
            pending = action if missing else None
        elif verbs is not None and word in verbs.choices:
            parser, position = verbs.choices[word], 0
        elif not word.startswith("-"):
            position += 1
    return parser, pending, position, given


def _verbs(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser] | None:
    return next((one for one in parser._actions if isinstance(one, argparse._SubParsersAction)), None)


def _positional(parser: argparse.ArgumentParser, position: int) -> argparse.Action | None:
    """The argument for the word at this position; one that takes many takes the rest."""
    arguments = [one for one in parser._actions if not one.option_strings]
    for place, one in enumerate(arguments):
        if place == position or (place < position and one.nargs in ("*", "+")):
            return one
    return None


def _options(parser: argparse.ArgumentParser, given: set[str]) -> Iterator[Candidate]:
    for one in parser._actions:
        again = isinstance(one, argparse._AppendAction)
        if one.option_strings and one.help is not argparse.SUPPRESS and (again or one.dest not in given):
            yield one.option_strings[0], one.help or ""


def _values(
    parser: argparse.ArgumentParser, action: argparse.Action, before: Sequence[str], ask: Ask
) -> list[Candidate]:
    if action.choices is not None:
        return [(str(choice), "") for choice in action.choices]
    fixed = {"state": State, "on": Need}.get(action.dest)
    if fixed is not None:
        return [(one.value, "") for one in fixed]
    if action.dest == "stream":
        from rota.cli.logs import STREAMS

        return [(stream, "") for stream in STREAMS]
    if action.dest in ("sort", "columns"):
        from rota.cli import query_completion

        return query_completion.orders() if action.dest == "sort" else query_completion.columns()
    noun = parser.prog.split()[1] if " " in parser.prog else ""
    source = _SOURCE_OF.get((noun, action.dest)) or _SOURCE_OF.get(("", action.dest))
    return [] if source is None else _asked(source, before, ask)


def _asked(source: str, before: Sequence[str], ask: Ask) -> list[Candidate]:
    place = next((before[at + 1] for at, word in enumerate(before[:-1]) if word == "--store"), None)
    with suppress(RotaError, OSError, TimeoutError):
        return ask(source, place)
    return []


# Where the values of an argument come from: by the noun of its verb and its name; without a noun for all others.
_SOURCE_OF = {
    ("job", "id"): "jobs", ("job", "ids"): "jobs", ("dead", "id"): "dead", ("dead", "ids"): "dead",
    ("dead", "group"): "groups",
    ("", "after"): "jobs", ("", "workflow"): "workflows", ("", "task"): "tasks", ("", "queue"): "queues",
    ("", "schedule"): "schedules", ("", "schedules"): "schedules", ("task", "name"): "tasks",
    ("node", "id"): "nodes", ("", "user"): "users", ("key", "key"): "keys", ("key", "keys"): "keys",
    ("", "lock"): "locks",
}  # fmt: skip


def _ask_in_time(source: str, place: str | None) -> list[Candidate]:
    """Asks the store. The timer ends the process if the store does not let go of a connection. Imports come before it:
    on a busy machine they take longer than a store may."""
    from rota.cli.session import unopened

    read = read_of(source)
    unopened(argparse.Namespace(store=place))
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, LATEST)
    try:
        return asyncio.run(read_store(PATIENCE, read, place))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


async def read_store(seconds: float, read: Read, place: str | None) -> list[Candidate]:
    from rota.cli.session import existing

    async with asyncio.timeout(seconds), existing(argparse.Namespace(store=place)) as client:
        return await read(client)


def read_of(source: str) -> Read:
    """`values FIELD PREFIX` are those of a field of queries."""
    if not source.startswith("values "):
        return sources()[source]
    _, field, prefix = source.split(" ", 2)

    async def values(client: JobsClient) -> list[Candidate]:
        return [(value, "") for value in await client.values(field, prefix, MOST)]

    return values


def sources() -> dict[str, Read]:
    """Imported only when the store is asked: most completions need none of it."""
    from rota.cli.session import admissions_of, locks_of, people_of, planning_of
    from rota.store.graph import WorkflowFilter
    from rota.store.values import JobFilter

    async def jobs(client: JobsClient, states: tuple[State, ...] | None = None) -> list[Candidate]:
        return [(job.id, f"{job.task} {job.state}") for job in await client.find(JobFilter(states=states, limit=MOST))]

    async def dead(client: JobsClient) -> list[Candidate]:
        return await jobs(client, (State.FAILED,))

    async def groups(client: JobsClient) -> list[Candidate]:
        return [(group.id, f"{group.task} {group.title}") for group in await client.error_groups(JobFilter(limit=MOST))]

    async def workflows(client: JobsClient) -> list[Candidate]:
        found = await client.store.workflows(client.who, WorkflowFilter(limit=MOST))
        names = {info.name: "the latest of this name" for info in found if info.name}
        return [*names.items(), *((info.id, info.name) for info in found)]

    async def tasks(client: JobsClient) -> list[Candidate]:
        return [(task.name, ", ".join(task.parameters)) for task in await client.store.tasks(client.who)]

    async def queues(client: JobsClient) -> list[Candidate]:
        return [(info.name, f"{info.ready} ready") for info in await admissions_of(client).queues()]

    async def schedules(client: JobsClient) -> list[Candidate]:
        return [(info.name, "") async for info in planning_of(client).all()]

    async def nodes(client: JobsClient) -> list[Candidate]:
        return [(node.id, node.state.value) for node in await client.store.nodes(client.who)]

    async def locks(client: JobsClient) -> list[Candidate]:
        return [(lock.name, "held" if lock.held else "free") for lock in await locks_of(client).locks()]

    async def users(client: JobsClient) -> list[Candidate]:
        return [(info.name, "") for info in await people_of(client).users()]

    async def keys(client: JobsClient) -> list[Candidate]:
        return [(key.id, f"{key.user} {key.role} {key.name}") for key in await people_of(client).keys()]

    return {
        "jobs": jobs, "dead": dead, "groups": groups, "workflows": workflows, "tasks": tasks, "queues": queues,
        "schedules": schedules, "nodes": nodes, "users": users, "keys": keys, "locks": locks,
    }  # fmt: skip
