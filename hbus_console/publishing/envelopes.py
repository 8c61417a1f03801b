"""What a publish request may look like: our own JSON, or CloudEvents in structured or batch mode."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from engine.bus.building import JSON, is_json
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import Message, read
from engine.bus.options import PublishOptions
from engine.bus.transport import Priority
from engine.core.clock import from_rfc3339, to_datetime
from engine.core.error_text import words_of
from engine.core.errors import BadInput, HbusError
from engine.core.prepared import prepared
from engine.core.strict_json import why_no_json

CLOUDEVENT = "application/cloudevents+json"
CLOUDEVENT_BATCH = "application/cloudevents-batch+json"
#: Of bytes that say nothing of themselves.
OCTETS = "application/octet-stream"
#: How many messages one request may carry.
BATCH_LIMIT = 1_000


class PublishRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message. Give ``data`` (any JSON) or ``data_base64`` (bytes), and whatever options it needs."""

    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data_base64: str | None = None
    #: Media type of ``data_base64``.
    content_type: str = OCTETS
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


#: The fields of our own JSON, by the options that they become, where they are called something else.
_FIELDS: Mapping[str, str] = MappingProxyType({"payload": "data", "body": "data_base64"})


class Parsed(msgspec.Struct, frozen=True):
    """A message ready for the producer: JSON text or bytes, and its options."""

    options: PublishOptions
    payload: Any = None
    body: bytes | None = None
    content_type: str = ""
    #: What the options that a refusal may name are called in the request, where that is something else.
    names: Mapping[str, str] = _FIELDS


#: The members of a CloudEvent, by the options that they become.
_MEMBERS = {
    "payload": "data",
    "body": "data",
    "message_id": "id",
    "key": "partitionkey",
    "due": "hbusdue",
    "expires": "expirytime",
    "priority": "hbuspriority",
    "correlation_id": "correlationid",
    "causation_id": "causationid",
    "classification": "dataclassification",
    "idempotency_key": "id",
}

_one = msgspec.json.Decoder(prepared(PublishRequest))
_batch = msgspec.json.Decoder(prepared(BatchRequest))
_array = msgspec.json.Decoder(prepared(list[msgspec.Raw]))


def parse_one(content_type: str, body: bytes, defaults: Mapping[str, str]) -> Parsed:
    """Read one message; ``defaults`` fills what the body leaves out: ``correlation_id``, ``traceparent``, and the
    ``idempotency_key``, which is remembered for ``idempotency_at_least_s`` however it came."""
    if content_type == CLOUDEVENT:
        return _from_cloudevent(read(body), defaults)
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
    key = defaults.get("idempotency_key", "")
    for number, item in enumerate(items):
        own = {**defaults, "idempotency_key": f"{key}:{number}"} if key else defaults
        try:
            parsed.append(parse_one(single, bytes(item), own))
        except HbusError as error:
            parsed.append(error)
    return parsed


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not isinstance(error, msgspec.ValidationError):
            raise BadInput(
                f"The body is not JSON: {why_no_json(body, error)}.", remedy="Send valid JSON in UTF-8."
            ) from error
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
        idempotency_key=request.idempotency_key or defaults.get("idempotency_key", ""),
        idempotency_at_least_s=int(defaults.get("idempotency_at_least_s", 0)),
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
    for name in ("hbusreplay", "hbustarget", *(each for each in message.extensions if each.startswith("hbus"))):
        if name in message.extensions or bool(getattr(message, name, None)):
            raise BadInput(
                f"{name} is written by hbus alone.",
                remedy="Leave it out: a replay or a redrive, made in the console or over the API, writes it.",
                field=name,
            )
    options = PublishOptions(
        type=message.type,
        source=message.source,
        message_id=message.id,
        key=message.partitionkey,
        subject=message.subject,
        headers=message.extensions,
        sequence=message.sequence,
        dataschema=message.dataschema,
        classification=message.dataclassification,
        due=_instant("hbusdue", message.hbusdue),
        priority=Priority(message.hbuspriority or Priority.NORMAL),
        expires=_instant("expirytime", message.expirytime),
        # source + id is a CloudEvent's identity, so it is its idempotency key too.
        idempotency_key=f"{message.source} {message.id}",
        idempotency_at_least_s=int(defaults.get("idempotency_at_least_s", 0)),
        correlation_id=message.correlationid or defaults.get("correlation_id", ""),
        causation_id=message.causationid,
        traceparent=message.traceparent or defaults.get("traceparent", ""),
        tracestate=message.tracestate,
        time=_instant("time", message.time),
    )
    names = {**_MEMBERS, **{f"headers.{name}": name for name in message.extensions}}
    media_type, raw = message.datacontenttype, bytes(message.data)
    if message.data_base64 is not None:
        return Parsed(options, body=message.data_base64, content_type=media_type or OCTETS, names=names)
    if not media_type or media_type == JSON or (not raw and is_json(media_type)):
        return Parsed(options, payload=message.data, names=names)
    return Parsed(options, body=_data_as(media_type, raw), content_type=media_type, names=names)


def _data_as(media_type: str, data: bytes) -> bytes:
    """The payload's own bytes: ``data`` holds them as JSON, or as a string where the media type is not JSON."""
    if is_json(media_type):
        return data
    try:
        return msgspec.json.decode(data, type=prepared(str)).encode()
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedEnvelope(
            f"data is no text of datacontenttype {media_type!r}.",
            remedy="Send a string, or bytes as data_base64; leave datacontenttype out where data is JSON, or none.",
            field="datacontenttype",
        ) from error


def _instant(field: str, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return to_datetime(from_rfc3339(text))
    except ValueError as error:
        raise BadInput(
            f"{field} {text!r} is not an RFC 3339 instant.", remedy="Write 2026-11-21T08:00:00Z.", field=field
        ) from error
