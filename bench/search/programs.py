"""Programs that print as programs do: requests of a service, events in JSON and logfmt, rows of a batch, a build.

A program prints in bursts: some lines of one stream at one time, as one request or one stack trace makes them. All that
varies in a burst comes from 128 random bits; most of them end in ids, which are what makes real output hard to
compress. A line is text in which bytes that are not UTF-8 stand as surrogates.
"""

from __future__ import annotations

from bench.search import traces
from bench.search.stamps import comma, iso

STDOUT, STDERR = "stdout", "stderr"
Burst = tuple[str, list[str]]

PATHS = ("/api/v1/orders", "/api/v1/users", "/api/v1/carts", "/internal/health", "/api/v1/invoices", "/static/app.js",
         "/api/v2/search", "/login")  # fmt: skip
METHODS = ("GET", "GET", "GET", "POST", "GET", "PUT", "DELETE", "GET")
STATUSES = (200,) * 10 + (201, 204, 304, 404, 500, 502)
LEVELS = ("INFO ", "INFO ", "DEBUG", "INFO ", "INFO ", "WARN ", "DEBUG", "INFO ")
TABLES = ("orders", "users", "invoices", "cart_items", "sessions", "audit_log", "stock", "payments")
EVENTS = ("message delivered", "message queued", "template rendered", "attachment stored", "address verified",
          "bounce recorded", "cache refreshed", "batch acknowledged")  # fmt: skip
PARTS = ("parser", "planner", "executor", "storage", "network", "scheduler", "report", "widgets")
LANGUAGES = ("de", "en", "fr", "ja")
# A burst in so many is one of the odd ones below, or a stack trace.
ODD, TRACE, TIMEOUT = 4096, 128, 64
_SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835  # brings the lower bits to the upper digits


class Program:
    """One run of a task. It is told how many lines it will print, and so how far it has come."""

    def __init__(self, task: str, lines: int) -> None:
        self.task, self.logger, self.lines, self.printed = task, f"app.{task}", lines, 0

    def say(self, at: int, level: str, message: str) -> str:
        """A line with this message, in the program's own format."""
        return f"{comma(at)} {level:5} [worker-{at % 8}] {self.logger}: {message}"

    def burst(self, at: int, bits: int) -> Burst:
        if not bits % ODD:
            printed = STDERR, [self.say(at, "WARN", odd(bits >> 12))]
        elif not bits % TRACE:
            printed = STDERR, [self.say(at, "ERROR", f"job of user {bits >> 16 & 0x3FFF} failed"), *self.trace(bits)]
        elif not bits % TIMEOUT:
            printed = STDERR, [self.say(at, "WARN", timeout(bits >> 8))]
        else:
            printed = STDOUT, self.usual(at, bits >> 8)
        self.printed += len(printed[1])
        return printed

    def usual(self, at: int, bits: int) -> list[str]:
        raise NotImplementedError

    def trace(self, bits: int) -> list[str]:
        return traces.of_python(self.task, bits >> 16)


class Service(Program):
    """A request and what it did, under one id."""

    def usual(self, at: int, bits: int) -> list[str]:
        request, user = f"{bits >> 56:016x}", bits & 0x3FFF
        head = f"{comma(at)} {LEVELS[bits >> 14 & 7]} [worker-{bits >> 17 & 7}] "
        path = f"{METHODS[bits >> 20 & 7]} {PATHS[bits >> 23 & 7]}/{bits >> 26 & 0xFFFFF}"
        took = (bits >> 46 & 0x3FF) * 0.37
        lines = [
            f"{head}{self.logger}.http: request={request} user={user} {path} {STATUSES[bits >> 40 & 15]} {took:.1f} ms"
        ]
        if bits >> 44 & 1:
            lines.append(
                f"{head}{self.logger}.db: request={request} SELECT id, state, total FROM {TABLES[bits >> 30 & 7]} "
                f"WHERE user_id = {user} AND id > {bits >> 26 & 0xFFFFF} ORDER BY id LIMIT 50 "
                f"-- {took / 3:.2f} ms, {user % 51} rows"
            )
            if bits >> 45 & 1:
                lines.append(f"{head}{self.logger}: request={request} session {uuid(bits >> 8)} of user {user} renewed")
        return lines


class Events(Program):
    """JSON, an event a line."""

    def say(self, at: int, level: str, message: str) -> str:
        return f'{{"ts": "{iso(at)}", "level": "{level.lower()}", "logger": "{self.logger}", "event": "{message}"}}'

    def usual(self, at: int, bits: int) -> list[str]:
        head = f'{{"ts": "{iso(at)}", "level": "info", "logger": "{self.logger}", "event": '
        message, user = uuid(bits), bits & 0x3FFF
        lines = [
            f'{head}"{EVENTS[bits >> 14 & 7]}", "message_id": "{message}", "user_id": {user}, '
            f'"to": "user{user}@example.com", "duration_ms": {(bits >> 17 & 0xFFF) / 10}, '
            f'"host": "mail-{bits >> 29 & 7}.internal", "size": {bits >> 32 & 0xFFFF}}}'
        ]
        if bits >> 48 & 1:
            language = LANGUAGES[bits >> 49 & 3]
            lines.append(
                f'{head}"job step done", "message_id": "{message}", "step": {user % 9}, "lang": "{language}"}}'
            )
        return lines


class Logfmt(Program):
    def say(self, at: int, level: str, message: str) -> str:
        return f'ts={iso(at)} level={level.lower()} logger={self.logger} msg="{message}"'

    def usual(self, at: int, bits: int) -> list[str]:
        head = f"ts={iso(at)} level=info logger={self.logger} "
        took, key = f"took={(bits >> 14 & 0xFFF) / 1000}s", f"{bits >> 30 & 0xFFFFFFFFFF:010x}/{bits & 0x3FFF}"
        return [
            f'{head}msg="object fetched" bucket=media-{bits & 7} key={key}.jpg bytes={bits >> 70 & 0xFFFFF} {took}',
            f'{head}msg="thumbnail written" key={key}_256.webp {took}',
        ]  # fmt: skip

    def trace(self, bits: int) -> list[str]:
        return traces.of_java(self.task, bits >> 16)


class Batch(Program):
    """Rows in bulk, with progress."""

    def usual(self, at: int, bits: int) -> list[str]:
        table, rows = TABLES[bits & 7], bits >> 3 & 0x1FFF
        if not bits >> 16 & 3:
            share = 100 * self.printed // self.lines
            return [f"Processed {self.printed * 500:,} of {self.lines * 500:,} rows ({share}%), {rows / 7:.1f} rows/s"]
        if not bits >> 18 & 15:
            return ["".join(f"\rcopying {table}: {percent:3}%" for percent in range(0, 101, 20))]
        id, values = bits >> 22 & 0xFFFFFF, f"{bits >> 70 & 0x3FFF}, {(bits >> 48 & 0xFFFFF) / 100:.2f}, '{iso(at)}'"
        insert = f"INSERT INTO {table} (id, user_id, total, updated_at) VALUES ({id}, {values})"
        return [
            self.say(at, "DEBUG", f"{insert} ON CONFLICT (id) DO UPDATE SET total = excluded.total"),
            self.say(at, "INFO", f"row {id} of {table} merged in {rows} us"),
        ]

    def trace(self, bits: int) -> list[str]:
        return traces.of_java(self.task, bits >> 16)


class Build(Program):
    """No times in its lines, and colours."""

    def say(self, at: int, level: str, message: str) -> str:
        return f"\033[33m{level}\033[0m {message}"

    def usual(self, at: int, bits: int) -> list[str]:
        share, part, number = 100 * self.printed // self.lines, PARTS[bits & 7], bits >> 3 & 0x3FF
        if bits >> 13 & 1:
            target = f"src/{part}/CMakeFiles/{part}.dir/{part}_{number}.cpp.o"
            return [f"[{share:3}%] \033[32mBuilding CXX object {target}\033[0m"]
        if bits >> 14 & 1:
            return [f"tests/{part}/test_{part}_{number}.py::test_case_{bits >> 15 & 0xFF} PASSED [{share:3}%]"]
        place = f"src/{part}/{part}_{number}.cpp:{bits >> 15 & 0x7FF}:{bits >> 26 & 63}"
        return [f"{place}: note: candidate expects {number % 5} arguments"]


def timeout(bits: int) -> str:
    upstream = f"{TABLES[bits & 7]}-{bits >> 3 & 7}.internal:{8000 + (bits >> 6 & 63)}"
    return f"call {bits >> 40 & 0xFFFFFFFF:08x} to {upstream} timed out after {1000 + (bits >> 12 & 0x7FFF)} ms"


def odd(bits: int) -> str:
    """What nobody wanted to print: bytes of other encodings, and very long lines."""
    match bits & 7:
        case 0 | 1:
            return f"name of user {bits >> 3 & 0x3FFF} is Ren\udce9 M\udcfcller, Stra\udcdfe {bits >> 17 & 0xFF}"
        case 2 | 3:
            return f"frame {bits >> 3 & 0xFFF}: \udcff\udcfe\x01\x02\udc80" + "\udcc3\x1b[0m" * (bits >> 15 & 15)
        case 4 | 5:
            return f"user {bits >> 3 & 0x3FFF} wrote „Grüße aus Köln“, 東京, 👍 and left"
        case 6:
            ids = ", ".join(str((bits >> 9) * step & 0xFFFFFF) for step in range(1, 1 + (bits >> 3 & 0x1FFF)))
            return f"slow query: SELECT * FROM {TABLES[bits >> 16 & 7]} WHERE id IN ({ids})"
        case _:
            return f"body {(bits | 1 << 90) ** (1 + (bits >> 3 & 0x7FF)):x}"


def uuid(bits: int) -> str:
    digits = f"{bits * _SPREAD & (1 << 128) - 1:032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
