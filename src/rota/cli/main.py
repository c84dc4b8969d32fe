"""`rota`: parses the arguments, calls the verb, and turns every error into one line and an exit code.

Nothing heavy is imported before the verb is known: `rota --help` and a mistyped option answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

from rota.cli.grammar import gather
from rota.cli.parser import build
from rota.cli.show import complain
from rota.errors import InvalidInput, RotaError
from rota.work.keeper.kernel import hide

if TYPE_CHECKING:
    import asyncio

FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
LAST_CALL = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code. Without `argv` this is the program `rota`, and the process hides itself:
    other processes of its user, such as commands of jobs, must not read the address of the store from it."""
    if argv is None:
        _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a replaced stream without an encoding
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if argv is not None:
        return perform(parse(argv))
    if sys.platform == "linux":
        hide()
    if sys.argv[1:2] == ["__complete"]:
        return _complete(sys.argv[2:])
    args = parse(sys.argv[1:])
    _put_secrets_aside()
    code = perform(args)
    try:
        sys.stderr.flush()
    except OSError:  # a node whose stderr has no reader goes on, and ends with its own exit code
        _hush(sys.stderr)
    _leave_in_time(code)
    return code


def _open_standard_streams() -> None:
    """Opens on /dev/null the standard streams that were closed when the process started. Otherwise sockets would get
    the file descriptors 0 to 2, which libuv refuses and into which child processes would write."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Everything after the first `--` is a command and is not parsed."""
    own, command = list(words), None
    if "--" in own:
        cut = own.index("--")
        own, command = own[:cut], own[cut + 1 :]
    args, extras = build(own).parse_known_args(own)
    args.command = command
    unknown = [extra for extra in extras if extra.startswith("-") and extra != "-"]
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(extras)}")
    if args.rest:
        gather(args, extras)
        extras = []
    # argparse refuses a TASK or JSON after an option, although it is unambiguous there.
    for name in args.late:
        if extras and getattr(args, name) is None:
            setattr(args, name, extras.pop(0))
    if extras and args.module == "run" and command is None:
        args.parser.error(f"the command goes after `--`, as in: rota run -- {' '.join(extras)}")
    if extras:
        args.parser.error(f"unrecognized arguments: {' '.join(extras)}")
    if command is not None and not args.takes_command:
        takers = "`rota run`, `rota submit`, `rota schedule add` and `rota lock run`"
        args.parser.error(f"only {takers} take a command after `--`")
    return args


def perform(args: argparse.Namespace) -> int:
    try:
        code = _call(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except InvalidInput as error:
        complain(str(error))
        return WRONG_USE
    except RotaError as error:
        complain(str(error))
        return FAILED
    except BrokenPipeError:
        _hush(sys.stdout)
        return BROKEN_PIPE
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return FAILED


def _complete(words: Sequence[str]) -> int:
    """For the scripts of `rota completion`; silent whatever happens."""
    try:
        from rota.cli.completion import answer

        return answer(words)
    except Exception:
        return FAILED


def _put_secrets_aside() -> None:
    from rota import config

    config.put_secrets_aside()


def _call(args: argparse.Namespace) -> int:
    import asyncio

    if getattr(args, "reload", False):
        args.imported = import_module("rota.cli.reload").look(args.app)
    if getattr(args, "app", None) is not None:
        # Before the loop runs: modules of users may call ..._sync methods.
        args.loaded = _load_app(args)
    verb = getattr(import_module(f"rota.cli.{args.module}"), args.function)
    with asyncio.Runner(loop_factory=_quick_loop() if args.module == "up" else None) as runner:
        code: int = runner.run(verb(args))
    if getattr(args, "changed", False) and args.reload:
        import_module("rota.cli.reload").again()
    return code


def _load_app(args: argparse.Namespace) -> object:
    """The app. With `up --reload`, an import that fails is shown, and tried again after the next change."""
    try:
        return import_module("rota.cli.app_target").load_app(args.app)
    except InvalidInput as error:
        if not getattr(args, "reload", False):
            raise
        complain(str(error))
    reload = import_module("rota.cli.reload")
    reload.wait(args.app, args.imported)
    return reload.again()


def _quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop, if installed: a node on PostgreSQL is about a third faster with it."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _leave_in_time(code: int) -> None:
    """Python waits for every thread of the user's code at exit, and some never end: then the process ends without them.
    Their jobs are settled by now."""
    import threading

    from rota.daemon_thread import DaemonThread

    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if all(thread.daemon and not isinstance(thread, DaemonThread) for thread in others):
        return
    with suppress(OSError):
        sys.stderr.flush()
    alarm = threading.Timer(LAST_CALL, os._exit, [code])
    alarm.daemon = True
    alarm.start()


def _hush(stream: TextIO) -> None:
    """The reader of the stream is gone: its buffered data must not raise at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
