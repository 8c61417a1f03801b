"""What people type into the pages, as the services take it. Numbers that are none stay text, which services refuse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from engine.bus.options import PublishOptions
from engine.bus.transport import Priority
from engine.core.errors import BadInput

Form = Mapping[str, str]

_TOPIC_NUMBERS = ("partitions", "retention_hours", "retention_messages", "max_bytes", "idempotency_window_s", "ttl_s")
#: Fields of the two forms on a topic's settings tab.
WORKINGS = ("description", "ordering", "priorities", *_TOPIC_NUMBERS)
GOVERNANCE = ("owner", "classification", "masked_fields", "nothing_to_mask", "compatibility", "transport")
_POLICY_NUMBERS = ("concurrency", "max_attempts", "lease_s")
#: Left to what they are when the form does not name them.
_RARE_NUMBERS = (
    "max_handler_s",
    "breaker_failures", "breaker_share", "breaker_window_s", "breaker_open_s", "breaker_longest_open_s",
)  # fmt: skip


def text(form: Form, name: str) -> str:
    """A field's text, trimmed; empty when it was not sent."""
    return form.get(name, "").strip()


def topic_values(form: Form, fields: tuple[str, ...]) -> dict[str, Any]:
    """The named settings of a topic."""
    read: dict[str, Any] = {}
    for field in fields:
        if field == "partitions" and not text(form, field):
            # Left to what it is, or to what its order asks for.
            continue
        if field in _TOPIC_NUMBERS:
            read[field] = _whole(form, field)
        elif field in ("priorities", "nothing_to_mask"):
            read[field] = field in form
        elif field == "masked_fields":
            read[field] = sorted(
                {path.strip() for path in text(form, field).replace(",", "\n").split() if path.strip()}
            )
        else:
            read[field] = _lines(form, field)
    return read


def subscription_values(form: Form, *, webhook: bool) -> dict[str, Any]:
    """The settings of a subscription that a person may change."""
    read: dict[str, Any] = {
        "owner": text(form, "owner"),
        "description": _lines(form, "description"),
        "backoff_s": _tiers(text(form, "backoff_s")),
        "on_failed_head": text(form, "on_failed_head") or "block",
        **{field: _whole(form, field) for field in _POLICY_NUMBERS},
        **{field: _whole(form, field) for field in _RARE_NUMBERS if text(form, field)},
    }
    if webhook:
        return {
            **read,
            "webhook_url": text(form, "webhook_url"),
            "webhook_timeout_s": _whole(form, "webhook_timeout_s"),
        }
    return {**read, "transactional": "transactional" in form}


def revision(form: Form) -> int | None:
    """The revision the form was made from."""
    sent = text(form, "revision")
    return int(sent) if sent.isdigit() else None


def publish_options(form: Form) -> PublishOptions:
    """The options of a message typed by hand; raises :class:`BadInput` at the field."""
    priority = text(form, "priority") or Priority.NORMAL.value
    if priority not in set(Priority):
        raise BadInput(f"There is no priority {priority!r}.", remedy="Low, normal or high.", field="priority")
    return PublishOptions(
        type=text(form, "type"),
        key=text(form, "key"),
        headers=_headers(form.get("headers", "")),
        delay_s=_seconds(form, "delay_s"),
        due=_due(form),
        priority=Priority(priority),
        ttl_s=_seconds(form, "ttl_s"),
        idempotency_key=text(form, "idempotency_key"),
    )


def payload(form: Form) -> Any:
    """The payload's JSON; raises :class:`BadInput` with the line at fault."""
    try:
        return json.loads(form.get("payload", ""), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"Not JSON: {error.msg} in line {error.lineno}, column {error.colno}.",
            remedy="Mend it and try again.",
            field="payload",
        ) from error
    except RecursionError as error:
        raise BadInput("It nests too deep.", remedy="Flatten it.", field="payload") from error


def _no_constant(name: str) -> None:
    raise BadInput(f"{name} is no JSON.", remedy="Use null or a number.", field="payload")


def _lines(form: Form, name: str) -> str:
    # Browsers send line ends as CR LF.
    return text(form, name).replace("\r\n", "\n")


def _whole(form: Form, name: str) -> Any:
    sent = text(form, name).replace(",", "").replace("_", "")
    return int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 19 else sent


def _tiers(sent: str) -> list[Any]:
    tiers: list[Any] = []
    for part in sent.replace(";", ",").split(","):
        try:
            tiers.append(float(part))
        except ValueError:
            raise BadInput(
                f"{part.strip()!r} is no number of seconds.", remedy="For example 1, 5, 30.", field="backoff_s"
            ) from None
    return tiers


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
