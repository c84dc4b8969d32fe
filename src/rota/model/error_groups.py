"""Groups of errors: the same failure of the same task is one group, whatever ids, times and numbers its message names.

The group of a failure is made of its task, the type of its error, its message without the parts that vary, and its
place: the innermost frame of the user's code, as file and function. Line numbers are left out, so an edit of the file
does not split a group. The id is a digest of these four, so all nodes and both stores find the same group without
asking anyone.

Messages may be hostile. Only the first line counts, cut to a bound, and no expression here goes back over what it has
read, so the time is linear.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime

import msgspec

from rota.errors import InvalidInput
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.outcome import Problem

LONGEST_MESSAGE = 500  # of a message that is looked at; a title is hardly longer
LONGEST_TRACE = 40_000  # of the end of a trace
LONGEST_NAME = 200
SET_ASIDE = "rota.SetAside"

_FRAME = re.compile(r'^[ |]{1,60}File "([^"\n]{1,1000})", line \d{1,9}, in ([^\n]{1,300})$', re.MULTILINE)
_LAST_TRACE = "Traceback (most recent call last):"
# Frames of Python and of installed packages: the error is seldom theirs.
_FOREIGN = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<frozen ", "/rota/work/")

# A number that tells failures apart rather than jobs: an exit code, a status, an errno.
_TELLING = r"(?:exit code|code|status|errno|http|signal)[ =:]{1,2}-?\d{1,3}(?![\w.])"
_NUMBER = r"\d(?:[\d_,.:]{0,60}\d)?"
_UNIT = r"(?: ?(?:ns|us|µs|ms|s|sec|secs|seconds?|min|minutes?|h|hours?|days?)(?!\w))"
_PARTS = (
    ("", _TELLING),
    ("<url>", r"(?<!\w)[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>`]{1,400}"),
    ("<text>", r"(?<![\w<])'[^'\n]{0,300}'(?!\w)"),
    ("<text>", r'(?<![\w<])"[^"\n]{0,300}"(?!\w)'),
    ("<text>", r"`[^`\n]{0,300}`"),
    ("<uuid>", r"(?<!\w)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?!\w)"),
    ("<address>", r"(?<!\w)[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"),
    ("<time>", r"(?<!\w)\d{4}-\d\d-\d\d(?:[ t]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?z(?!\w)|[+-]\d\d:?\d\d)?)?"),
    ("<time>", r"(?<![\w:])\d{1,3}:\d\d:\d\d(?:[.,]\d{1,9})?(?![\w:])"),
    ("<address>", r"(?<!\w)\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?!\w)"),
    ("<address>", r"\[?(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])\]?(?::\d{1,5})?"),
    ("<hex>", r"(?<!\w)0x[0-9a-f]{1,64}(?!\w)"),
    ("<hex>", r"(?<!\w)(?=[a-f]{0,63}\d)(?=\d{0,63}[a-f])[0-9a-f]{8,64}(?!\w)"),
    ("<path>", r"(?<!\w)/(?:tmp|var/tmp|proc|dev/shm|run/user)/[^\s'\"<>`:,;)\]]{1,300}"),
    ("<duration>", rf"(?<![\w.])-?{_NUMBER}{_UNIT}"),
    ("<n>", rf"(?<![\w.])-?{_NUMBER}(?:e[+-]?\d{{1,4}}(?!\w))?"),
    ("<n>", _NUMBER),
)
_VARIABLE = re.compile("|".join(f"({pattern})" for _, pattern in _PARTS), re.IGNORECASE)
_PLACEHOLDERS = tuple(placeholder for placeholder, _ in _PARTS)
# A list of values is one value: how many there are varies too.
_SEVERAL = re.compile(r"(<[a-z]{1,8}>)(?:,? \1){1,200}")
_QUERY = re.compile(r"[?#]")


_ID = re.compile("[0-9a-f]{12}")


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with the same failure, as far as they are kept and seen by whoever asks."""

    id: str
    task: str
    title: str
    count: int
    first_at: datetime  # when the first of them failed,
    last_at: datetime  # and the last
    example: str  # the id of the last one


def group_of(task: str, problem: Problem) -> str:
    """The id of the group of a failure."""
    parts = (task, problem.type, normal(problem.message), place(problem.trace))
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()[:12]


def group_id(given: object, what: str = "group") -> str:
    """Refuses what can't be the id of a group: a mistyped one would find nothing."""
    if isinstance(given, str) and _ID.fullmatch(given):
        return given
    raise InvalidInput(what, given, "the id of a group of errors, which has 12 hexadecimal digits")


def title(problem: Problem) -> str:
    """The failure in a line: `ValueError: no user <n> (mail.py: send)`."""
    kind = problem.type.removeprefix("builtins.")
    message, where = normal(problem.message), place(problem.trace)
    text = f"{kind}: {message}" if message and message != kind else kind
    return f"{text} ({where})" if where else text


def last_problem(info: JobInfo) -> Problem:
    """The error with which a job failed. A job that was set aside while it waited failed for its reason, whatever an
    earlier attempt had ended with."""
    ended = [one for one in info.attempts if one.error is not None and one.finished_at == info.finished_at]
    return (ended[-1].error if ended else None) or set_aside(info.reason)


def title_of_example(example: JobInfo | None) -> str:
    """A title is not stored: it is made of an example, which may have gone or run again since its group was read."""
    if example is None:
        return "(its example is gone)"
    return title(last_problem(example) if example.state is State.FAILED else example.error or set_aside(None))


def set_aside(reason: str | None) -> Problem:
    return Problem(SET_ASIDE, reason or "set aside")


def normal(message: str) -> str:
    """The first line of a message, with placeholders for what varies."""
    line = next((line for line in message[: 4 * LONGEST_MESSAGE].splitlines() if line.strip()), "")
    line = " ".join(line[:LONGEST_MESSAGE].split())
    return _SEVERAL.sub(r"\1", _VARIABLE.sub(_placeholder, line))


def _placeholder(found: re.Match[str]) -> str:
    text = found[0]
    placeholder = _PLACEHOLDERS[(found.lastindex or 1) - 1]
    if placeholder == "<url>":
        return _plain_url(text)
    return placeholder or text


def _plain_url(url: str) -> str:
    """Scheme, host and path of a URL; numbers in the path are left out like others, and whoever it is that calls."""
    scheme, _, rest = _QUERY.split(url, maxsplit=1)[0].partition("://")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    parts = [re.sub(r"\d+", "<n>", part) if len(part) < 16 else "<id>" for part in path.split("/")]
    return f"{scheme}://{re.sub(r'[0-9]+', '<n>', host)}{slash}{'/'.join(parts)}"


def place(trace: str | None) -> str:
    """The innermost frame of the user's code in a trace, as `file: function`; empty: there is none."""
    if not trace:
        return ""
    end = trace[-LONGEST_TRACE:]
    last = end[end.rfind(_LAST_TRACE) :] if _LAST_TRACE in end else end  # after the causes of the error
    frames = _FRAME.findall(last)
    own = [frame for frame in frames if not any(part in frame[0] for part in _FOREIGN)]
    if not frames:
        return ""
    path, function = (own or frames)[-1]
    file = path.replace("\\", "/").rpartition("/")[2]
    return f"{file[:LONGEST_NAME]}: {function.strip()[:LONGEST_NAME]}"
