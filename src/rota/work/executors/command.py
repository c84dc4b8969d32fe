"""Runs commands, as children of the keeper. The exit code says how one ended: 0 success, 75 (and any other) try
again, codes the order names as fatal never again."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec

from rota.config import Settings
from rota.errors import InvalidInput
from rota.model.job import Claimed, CommandSpec
from rota.model.outcome import Interrupted, Outcome, Usage
from rota.model.resources import BOUNDS, Resources, niceness
from rota.model.times import SECOND
from rota.work.attempt import TOO_LATE, Attempt, Stop
from rota.work.executors.command_accounts import Account, account
from rota.work.executors.command_outcomes import not_started, outcome
from rota.work.executors.command_progress import PROGRESS_FD, PROGRESS_NUMBER, ProgressPipe
from rota.work.keeper.client import CommandProcess, Exit, KeeperClient, SpawnError, Unwanted
from rota.work.output import Drain, Output

# The node's environment holds secrets; a command gets only the variables that programs need.
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")
_spec = msgspec.json.Decoder(CommandSpec)


class CommandExecutor:
    def __init__(self, keeper: KeeperClient, settings: Settings, environment: Mapping[str, str], drain: Drain) -> None:
        self._keeper, self._settings, self._environment = keeper, settings, environment
        self._kill_grace = settings.kill_grace / SECOND
        self._drain = drain
        self._base = {name: environment[name] for name in INHERITED if name in environment}
        self._most = Resources(**{name: getattr(settings, f"command_{name}") for name in BOUNDS})

    def check(self) -> None:
        """Raises InvalidInput if this machine can't apply the settings: at the start, not at each command."""
        user, group = self._settings.command_user, self._settings.command_cgroup
        if user:
            try:
                account(user, None)
            except InvalidInput as error:
                raise InvalidInput("command_user", user, error.expected) from None
        if group and not Path(group, "cgroup.procs").exists():
            raise InvalidInput("command_cgroup", group, "the folder of a control group that is there")

    async def execute(self, attempt: Attempt) -> Outcome:
        spec = _read(attempt.claimed)
        bounds = self._most.tightened(spec.resources)
        attempt.conceal_named(spec.env, self._inherited(spec), self._base)
        loop = asyncio.get_running_loop()
        with ExitStack() as made:
            try:
                telling = ProgressPipe(attempt.book)
                made.callback(telling.close)
                pull = attempt.sink.pull if attempt.mask is None else None  # it would pass by the mask
                output = Output(attempt.output, self._drain, pull=pull)
                made.callback(output.close)
            except OSError as error:
                return not_started(SpawnError(error.errno or 0, f"no pipe for its output: {error.strerror}"))
            began = loop.time()
            try:
                child = await self._spawn(spec, bounds, attempt, output, telling)
            except SpawnError as error:
                return not_started(error)
            except Unwanted:
                return Interrupted(TOO_LATE)
            try:
                output.follow()
                telling.follow()
            except BaseException:  # such as no thread for the output: it must not run on unwatched
                child.kill()
                await child.wait()
                raise
            made.pop_all()
        attempt.on_stop(lambda reason: self._stop(child, reason))
        exit = await child.wait()
        attempt.usage = _usage(exit, child, loop.time() - began)
        output.end()
        telling.end()
        return outcome(exit, spec, bounds)

    async def _spawn(
        self, spec: CommandSpec, bounds: Resources, attempt: Attempt, output: Output, telling: ProgressPipe
    ) -> CommandProcess:
        claimed = attempt.claimed
        owner = await self._owner(spec)
        environment = {
            **self._base,
            **(owner.environment if owner else {}),
            **self._inherited(spec),
            **spec.env,
            "ROTA_JOB": claimed.job_id,
            "ROTA_ATTEMPT": str(claimed.number),
            "ROTA_FENCE": str(claimed.fence),
            PROGRESS_FD: str(PROGRESS_NUMBER),
        }
        stdin = _source(spec.stdin)
        try:
            return await self._keeper.spawn(
                spec.argv,
                cwd=spec.cwd,
                env=environment,
                stdin=stdin,
                stdout=output.writers[0],
                stderr=output.writers[1],
                extra=telling.writer,
                bounds=_words(bounds, claimed.priority) | (owner.words if owner else {}) | _rest(attempt),
                unless=attempt.too_late,
            )
        finally:
            os.close(stdin)

    async def _owner(self, spec: CommandSpec) -> Account | None:
        """The account that the command runs as, if not the node's own. An order can't override the node's setting."""
        fixed, user, group = self._settings.command_user, spec.user, spec.group
        if fixed and ((user is not None and str(user) != fixed) or group is not None):
            wanted = f"{user if user is not None else fixed}:{group}" if group is not None else user
            raise InvalidInput("user", wanted, f"none, or {fixed!r}: this node runs all commands as that")
        if not fixed and user is None and group is None:
            return None
        return await asyncio.to_thread(account, fixed or user, group)  # a name service may be remote

    def _inherited(self, spec: CommandSpec) -> dict[str, str]:
        for name in spec.inherit:
            if name not in self._settings.command_env and name not in INHERITED:
                allowed = ", ".join(self._settings.command_env) or "none"
                raise InvalidInput("inherit", name, f"a variable that this node gives away (command_env: {allowed})")
        return {name: self._environment[name] for name in spec.inherit if name in self._environment}

    def _stop(self, child: CommandProcess, reason: Stop) -> None:
        """Sends SIGTERM; after the grace the whole tree is killed. After a lost lease it is killed at once."""
        if reason is Stop.LOST:
            child.kill()
            return
        child.terminate()
        asyncio.get_running_loop().call_later(self._kill_grace, child.kill)


def _read(claimed: Claimed) -> CommandSpec:
    try:
        return _spec.decode(claimed.spec)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput("specification", claimed.spec, f"that of a command ({error})") from None


def _words(bounds: Resources, priority: int) -> dict[str, int | str]:
    """The bounds in the format of the keeper. The kernel counts CPU time in whole seconds."""
    given = {name: getattr(bounds, name) for name in BOUNDS}
    if bounds.cpu is not None:
        given["cpu"] = math.ceil(bounds.cpu / SECOND)
    given["nice"] = bounds.nice if bounds.nice is not None else niceness(priority)
    return {name: value for name, value in given.items() if value is not None and (value or name != "nice")}


def _rest(attempt: Attempt) -> dict[str, int | str]:
    """Where the keeper puts the rest of the output if this node dies. It knows no secrets, so it keeps nothing of an
    attempt that has some."""
    spool = attempt.sink.spool
    return {} if spool is None or attempt.mask is not None else {"rest": os.fsencode(spool.rest).hex()}


def _source(text: str) -> int:
    """A descriptor to read the text from. A file in memory holds all of it at once, and needs no writer."""
    if not text:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    body = text.encode()
    fd = os.memfd_create("rota-stdin", os.MFD_CLOEXEC)
    try:
        while body:
            body = body[os.write(fd, body) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException as error:
        os.close(fd)
        if isinstance(error, OSError):
            raise SpawnError(error.errno or 0, f"no memory for its input: {error.strerror}") from None
        raise
    return fd


def _usage(exit: Exit, child: CommandProcess, seconds: float) -> Usage:
    return Usage(round(seconds * SECOND), round(exit.cpu_seconds * SECOND), exit.max_rss_bytes, child.isolation)
