"""What a publish request may look like: our own JSON, or CloudEvents in structured or batch mode."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from engine.bus.message import Message, decode
from engine.bus.options import PublishOptions
from engine.bus.transport import Priority
from engine.core.clock import from_rfc3339, to_datetime
from engine.core.error_text import words_of
from engine.core.errors import BadInput, HbusError
from engine.core.prepared import prepared

CLOUDEVENT = "application/cloudevents+json"
CLOUDEVENT_BATCH = "application/cloudevents-batch+json"
#: How many messages one request may carry.
BATCH_LIMIT = 1_000


class PublishRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message. Give ``data`` (any JSON) or ``data_base64`` (bytes), and whatever options it needs."""

    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data_base64: str | None = None
    #: Media type of ``data_base64``.
    content_type: str = "application/octet-stream"
    type: str = ""
    key: str = ""
    subject: str = ""
    #: CloudEvents extension attributes: names of a-z and 0-9, values text.
    headers: dict[str, Any] = {}
    #: Seconds to wait before delivery, or ``due``: not both.
    delay_s: float | None = None
    due: str | None = None
    priority: Priority = Priority.NORMAL
    ttl_s: float | None = None
    idempotency_key: str = ""
    correlation_id: str = ""
    causation_id: str = ""
    #: When it happened, RFC 3339.
    time: str | None = None


class BatchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Up to 1,000 messages, each answered by itself."""

    messages: list[msgspec.Raw]


class Parsed(msgspec.Struct, frozen=True):
    """A message ready for the producer: JSON text or bytes, and its options."""

    options: PublishOptions
    payload: Any = None
    body: bytes | None = None
    content_type: str = ""


_one = msgspec.json.Decoder(prepared(PublishRequest))
_batch = msgspec.json.Decoder(prepared(BatchRequest))
_array = msgspec.json.Decoder(prepared(list[msgspec.Raw]))


def parse_one(content_type: str, body: bytes, defaults: Mapping[str, str]) -> Parsed:
    """Read one message; ``defaults`` fills ``correlation_id`` and ``traceparent`` when the body names none."""
    if content_type == CLOUDEVENT:
        return _from_cloudevent(decode(body), defaults)
    return _from_request(_decoded(_one, body), defaults)


def parse_batch(content_type: str, body: bytes, defaults: Mapping[str, str]) -> list[Parsed | HbusError]:
    """Read a batch; a message that cannot be read stands as its error in its place."""
    if content_type == CLOUDEVENT_BATCH:
        items: list[msgspec.Raw] = _decoded(_array, body)
        single = CLOUDEVENT
    else:
        items = _decoded(_batch, body).messages
        single = "application/json"
    if not 1 <= len(items) <= BATCH_LIMIT:
        raise BadInput(
            f"A batch carries 1 to {BATCH_LIMIT} messages, not {len(items)}.", remedy="Split it.", field="messages"
        )
    parsed: list[Parsed | HbusError] = []
    for item in items:
        try:
            parsed.append(parse_one(single, bytes(item), defaults))
        except HbusError as error:
            parsed.append(error)
    return parsed


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{str(error).split(' - at')[0]}.",
            remedy="See the schema of this request under /api/v1/docs/.",
            field=_field_of(error),
        ) from error
    except RecursionError:
        raise BadInput("The body nests too deep.", remedy="Flatten it.") from None


def _field_of(error: Exception) -> str:
    text = words_of(error)
    for pattern in (r"at `\$\.?([^`]*)`", r"(?:unknown|required) field `([^`]+)`"):
        if found := re.search(pattern, text):
            return found.group(1)
    return ""


def _from_request(request: PublishRequest, defaults: Mapping[str, str]) -> Parsed:
    if (request.data is msgspec.UNSET) == (request.data_base64 is None):
        raise BadInput(
            "Give either data or data_base64.", remedy="data takes any JSON, data_base64 takes bytes.", field="data"
        )
    for name, value in request.headers.items():
        if not isinstance(value, str):
            raise BadInput(
                f"Header {name!r} is not text.", remedy="Header values are strings.", field=f"headers.{name}"
            )
    options = PublishOptions(
        type=request.type,
        key=request.key,
        subject=request.subject,
        headers=request.headers,
        delay_s=request.delay_s,
        due=_instant("due", request.due),
        priority=request.priority,
        ttl_s=request.ttl_s,
        idempotency_key=request.idempotency_key,
        correlation_id=request.correlation_id or defaults.get("correlation_id", ""),
        causation_id=request.causation_id,
        traceparent=defaults.get("traceparent", ""),
        tracestate=defaults.get("tracestate", ""),
        time=_instant("time", request.time),
    )
    if request.data_base64 is not None:
        try:
            raw = base64.b64decode(request.data_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadInput(
                f"data_base64 is not base64: {error}.", remedy="Encode with RFC 4648.", field="data_base64"
            ) from error
        return Parsed(options=options, body=raw, content_type=request.content_type)
    return Parsed(options=options, payload=request.data)


def _from_cloudevent(message: Message, defaults: Mapping[str, str]) -> Parsed:
    due = _instant("hbusdue", message.hbusdue)
    expiry = _instant("expirytime", message.expirytime)
    ttl_s = None
    if expiry is not None:
        starts = due or to_datetime(int(defaults["now_ms"]))
        ttl_s = (expiry - starts).total_seconds()
    try:
        priority = Priority(message.hbuspriority or Priority.NORMAL)
    except ValueError as error:
        raise BadInput(
            f"hbuspriority {message.hbuspriority!r} is not known.",
            remedy="Use low, normal or high.",
            field="hbuspriority",
        ) from error
    options = PublishOptions(
        type=message.type,
        source=message.source,
        message_id=message.id,
        key=message.partitionkey,
        subject=message.subject,
        headers=message.extensions,
        due=due,
        priority=priority,
        ttl_s=ttl_s,
        # source + id is a CloudEvent's identity, so it is its idempotency key too.
        idempotency_key=f"{message.source} {message.id}",
        correlation_id=message.correlationid or defaults.get("correlation_id", ""),
        causation_id=message.causationid,
        traceparent=message.traceparent or defaults.get("traceparent", ""),
        tracestate=message.tracestate,
        time=_instant("time", message.time),
    )
    if message.data_base64 is not None:
        return Parsed(
            options=options,
            body=message.data_base64,
            content_type=message.datacontenttype or "application/octet-stream",
        )
    return Parsed(options=options, payload=message.data)


def _instant(field: str, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return to_datetime(from_rfc3339(text))
    except ValueError as error:
        raise BadInput(
            f"{field} {text!r} is not an RFC 3339 instant.", remedy="Write 2026-11-21T08:00:00Z.", field=field
        ) from error
