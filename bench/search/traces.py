"""Stack traces, of several lines each."""

from __future__ import annotations

FUNCTIONS = ("handle", "dispatch", "call", "execute", "fetch_rows", "render", "commit", "send", "connect", "retry")
MODULES = (
    "core/handlers",
    "core/queue",
    "db/session",
    "db/pool",
    "http/client",
    "util/retry",
    "mail/smtp",
    "cache/lru",
)
ERRORS = (
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "TimeoutError: no answer from the upstream",
    "KeyError: 'customer_id'",
    "ValueError: invalid literal for int() with base 10: 'n/a'",
    "sqlalchemy.exc.OperationalError: server closed the connection unexpectedly",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "PermissionError: [Errno 13] Permission denied: '/var/lib/app/spool'",
    "smtplib.SMTPRecipientsRefused: {'user@example.com': (550, b'mailbox unavailable')}",
)


def of_python(task: str, bits: int) -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for depth in range(3 + (bits & 7)):
        part = bits >> 3 * depth
        function = FUNCTIONS[part % len(FUNCTIONS)]
        lines.append(f'  File "/srv/app/{MODULES[part & 7]}.py", line {part & 0x1FF}, in {function}')
        lines.append(f"    return self.{function}({task.partition('.')[0]}, *args, **options)")
    return [*lines, ERRORS[bits >> 40 & 7]]


def of_java(task: str, bits: int) -> list[str]:
    lines = [f"java.lang.IllegalStateException: {task} stopped: {ERRORS[bits >> 40 & 7]}"]
    for depth in range(5 + (bits & 15)):
        part = bits >> 3 * depth
        module = MODULES[part & 7].replace("/", ".")
        lines.append(f"\tat com.example.{module}.{FUNCTIONS[part % len(FUNCTIONS)]}(Worker.java:{part & 0x3FF})")
    return [*lines, f"\t... {bits >> 44 & 31} more"]
