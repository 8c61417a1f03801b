"""A message typed by hand, as the producer takes it; each refusal names the field."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from engine.bus.options import PublishOptions
from engine.bus.transport import Priority
from engine.core.errors import BadInput
from engine.core.strict_json import NotJson, read_typed
from hbus_console import checks
from hbus_console.ui.forms import Form, text


def publish_options(form: Form) -> PublishOptions:
    """The options of a message typed by hand; raises :class:`BadInput` at the field."""
    priority = text(form, "priority") or Priority.NORMAL.value
    if priority not in set(Priority):
        raise BadInput(f"There is no priority {priority!r}.", remedy="Low, normal or high.", field="priority")
    return PublishOptions(
        type=_line(form, "type"),
        key=_line(form, "key"),
        headers=_headers(_as_shown(form.get("headers", ""), "headers")),
        delay_s=_seconds(form, "delay_s"),
        due=_due(form),
        priority=Priority(priority),
        ttl_s=_seconds(form, "ttl_s"),
        idempotency_key=_line(form, "idempotency_key"),
    )


def payload(form: Form) -> Any:
    """The payload's JSON; raises :class:`BadInput` with the line at fault."""
    try:
        return read_typed(form.get("payload", ""))
    except NotJson as error:
        raise BadInput(f"Not JSON: {error}.", remedy="Mend it and try again.", field="payload") from error


def _line(form: Form, name: str) -> str:
    return _as_shown(text(form, name), name)


def _as_shown(sent: str, field: str) -> str:
    """``sent``, which whoever checks it before they publish it sends a second time, off the page."""
    if checks.holds_not_shown(sent):
        raise BadInput(
            "It holds characters that no page shows as they are.",
            remedy="Remove them, or publish it through the API.",
            field=field,
        )
    return sent


def _seconds(form: Form, name: str) -> float | None:
    sent = text(form, name)
    if not sent:
        return None
    try:
        return float(sent)
    except ValueError:
        raise BadInput(f"{sent!r} is no number of seconds.", remedy="For example 90.", field=name) from None


def _due(form: Form) -> datetime | None:
    sent = text(form, "due")
    if not sent:
        return None
    try:
        moment = datetime.fromisoformat(sent)
    except ValueError:
        raise BadInput(f"{sent!r} is no moment.", remedy="Write 2026-11-21T08:00.", field="due") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.get_current_timezone())


def _headers(sent: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in sent.splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or name.strip() in headers:
            raise BadInput(
                f"{line.strip()!r} is no header of its own.", remedy="One name: value a line.", field="headers"
            )
        headers[name.strip()] = value.strip()
    return headers
