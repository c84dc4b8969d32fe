"""`Template`: the order that a schedule places each time it fires."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.model import http
from rota.model.job import CommandSpec, Kind, NewJob, Spec, Terms, shared, shown_order
from rota.model.options import Options, requirements, task_name
from rota.model.rank import priority
from rota.model.requirements import NO_REQUIREMENTS, Requirements
from rota.model.times import LONGEST, Duration, Instant
from rota.model.trigger.arguments import FIRE_TIME, SCHEDULED_FOR, fill


class Template(Terms, frozen=True, kw_only=True, omit_defaults=True):
    """An order without its time. Texts in its arguments, and in those of a command or an HTTP call, may name the times
    of the fire."""

    task: str
    spec: Spec
    args: str = "{}"  # JSON
    expires: Duration | None = None
    requirements: Requirements = NO_REQUIREMENTS

    @property
    def shown(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Specification and arguments without secrets."""
        return shown_order(self.spec.kind, msgspec.json.decode(self.spec.body), msgspec.json.decode(self.args))

    def job(
        self, job_id: str, at: Instant | None, zone_name: str, fire_time: Instant, scheduled_for: Instant
    ) -> NewJob:
        """`at`: when to run it; None: at once."""

        def filled(value: Any) -> Any:
            return fill(value, zone_name, fire_time, scheduled_for)

        changed = {"spec": _with_times(self.spec, filled), "args": _arguments(self.args, filled)}
        return NewJob(id=job_id, at=at, **shared(self, NewJob) | changed)


def template_of(spec: Spec, task: str, body: str, options: Options) -> Template:
    """`body`: the arguments as JSON. Refuses options that only single jobs have."""
    if options.at is not None or options.delay or options.key is not None:
        raise InvalidInput("at, delay and key", "given", "none of them: the schedule says when, and each fire is a job")
    if options.after or options.job_name:
        raise InvalidInput("after and name", "given", "none of them: they are for single jobs and for workflows")
    needed = requirements(task, body, options)
    hiding = spec.with_secrets(options.secrets)
    return Template(task=task, spec=hiding, args=body, requirements=needed, **shared(options, Template))


def _arguments(text: str, filled: Any) -> str:
    if not _names_times(text):
        return text
    return msgspec.json.encode(filled(msgspec.json.decode(text))).decode()


def _with_times(spec: Spec, filled: Any) -> Spec:
    if spec.kind is Kind.FUNCTION or not _names_times(spec.body):
        return spec
    if spec.kind is Kind.HTTP:
        call = _call_with_times(msgspec.json.decode(spec.body, type=http.HttpSpec), filled)
        return Spec.of(spec.kind, call).with_secrets(spec.secrets)
    command = msgspec.json.decode(spec.body, type=CommandSpec)
    texts = {part: filled(getattr(command, part)) for part in ("argv", "env", "stdin")}
    return Spec.of(spec.kind, msgspec.structs.replace(command, **texts)).with_secrets(spec.secrets)


def _call_with_times(call: http.HttpSpec, filled: Any) -> http.HttpSpec:
    url = call.url
    for name in (FIRE_TIME, SCHEDULED_FOR):
        url = url.replace(name, filled(name).replace("+", "%2B"))  # a bare + is a space there
    body = call.body if call.binary else filled(call.body)
    return msgspec.structs.replace(call, url=url, headers=filled(call.headers), body=body)


def _names_times(text: str) -> bool:
    return FIRE_TIME in text or SCHEDULED_FOR in text


_decoder = msgspec.json.Decoder(Template)


def to_json(template: Template) -> str:
    return msgspec.json.encode(template).decode()


def from_json(text: str) -> Template:
    """Reads a stored template. It may have been written by hand, so a template that can't be ordered is refused."""
    try:
        template = _decoder.decode(text)
        _check(template)
    except (msgspec.MsgspecError, RecursionError, InvalidInput) as problem:
        # The text is not shown: there may be secrets in it.
        raise InvalidInput("order of the schedule", http.HIDDEN, f"an order as JSON ({problem})") from None
    return template


def shown_text(text: str) -> str:
    """A stored template as people may see it. One that can't be read, such as one written by hand, is not shown."""
    try:
        template = _decoder.decode(text)
        if template.spec.kind is not Kind.HTTP and not template.spec.secrets:
            return text
        spec, args = (msgspec.json.encode(part).decode() for part in template.shown)
    except (msgspec.MsgspecError, RecursionError):
        return http.HIDDEN
    return to_json(msgspec.structs.replace(template, spec=Spec(template.spec.kind, spec, http.HIDDEN), args=args))


def _check(template: Template) -> None:
    msgspec.json.decode(template.args, type=dict[str, Any])
    if template.spec.kind is Kind.COMMAND:
        command = msgspec.json.decode(template.spec.body, type=CommandSpec)
        Spec.command(**msgspec.structs.asdict(command))
    if template.spec.kind is Kind.HTTP:
        http.check(msgspec.json.decode(template.spec.body, type=http.HttpSpec))
    priority(template.priority)
    template.requirements.check()
    for what in ("task", "queue"):
        task_name(getattr(template, what), what)
    for what in ("timeout", "expires"):
        if not 0 <= (getattr(template, what) or 0) <= LONGEST:
            raise InvalidInput(what, getattr(template, what), "a duration of up to 100 years")
