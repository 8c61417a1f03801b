"""From payload and options to an envelope: every check of a publish that needs no store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec

from engine.bus import context
from engine.bus.catalog import TopicPolicy
from engine.bus.errors import MalformedEnvelope, OwnerlessTopic, PublishRefused
from engine.bus.message import ATTRIBUTE_NAME, KNOWN_ATTRIBUTES, LONGEST, NO_DATA, Message, check_text
from engine.bus.options import DELAY_HORIZON_DAYS, PublishOptions
from engine.bus.transport import Priority
from engine.core.clock import from_rfc3339, to_rfc3339
from engine.core.ids import MANY, new_id, new_ids, new_trace, new_traceparents, parse_traceparent

JSON = "application/json"
#: How many headers one message may carry.
HEADER_LIMIT = 50
#: The longest idempotency key, in characters.
KEY_LIMIT = 512
#: The farthest expiry, in days after the due time.
TTL_HORIZON_DAYS = 3_650

_DAY_MS = 86_400_000
_encoder = msgspec.json.Encoder()


def check_owner(policy: TopicPolicy) -> None:
    """Raise :class:`OwnerlessTopic` when nobody answers for the topic."""
    if not policy.owner:
        raise OwnerlessTopic(
            f"Topic {policy.name!r} has no owner.", remedy="Name its owning team on the topic's page.", field="topic"
        )


def json_data(payload: Any) -> msgspec.Raw:
    """The payload as JSON text; ``msgspec.Raw`` is taken as it is."""
    if isinstance(payload, msgspec.Raw):
        return payload
    try:
        return msgspec.Raw(_encoder.encode(payload))
    except (TypeError, ValueError, RecursionError) as error:
        raise PublishRefused(
            f"The payload cannot be written as JSON: {error}.",
            remedy="Send JSON values, a msgspec.Struct or a dataclass; send bytes with publish_raw.",
            field="payload",
        ) from error


def is_json(content_type: str) -> bool:
    """Whether a media type says JSON."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == JSON or media_type.endswith("+json")


class Item(Protocol):
    """What a builder reads of a message to be: see :class:`engine.bus.producer.BatchItem`."""

    @property
    def payload(self) -> Any: ...

    @property
    def options(self) -> PublishOptions: ...

    @property
    def body(self) -> bytes | None: ...

    @property
    def content_type(self) -> str: ...


class EnvelopeBuilder:
    """Makes the envelopes of one call; what all of them share is worked out once.

    Inside a handler, what the options leave open (correlation, causation, trace) comes from the message being handled.
    With ``expected`` messages to make, their ids and trace contexts are drawn many at once.
    """

    __slots__ = (
        "_ambient",
        "_dataschema",
        "_draw",
        "_ids",
        "_like",
        "_now_ms",
        "_options",
        "_policy",
        "_source",
        "_time",
        "_traces",
    )

    def __init__(self, policy: TopicPolicy, *, source: str, now_ms: int, expected: int = 1) -> None:
        self._policy = policy
        self._source = source
        self._now_ms = now_ms
        self._time = to_rfc3339(now_ms)
        self._dataschema = policy.schema.uri if policy.schema else ""
        self._ambient = context.current()
        self._draw = max(1, min(expected, MANY))
        self._ids: Iterator[str] = iter(())
        self._traces: Iterator[str] = iter(())
        #: The options of the last message that was made, and that message.
        self._options: PublishOptions | None = None
        self._like = Message(id="", source="", type="")

    def keyed(self, item: Item) -> tuple[Message, str]:
        """The envelope of one item and its idempotency key; see :meth:`message`."""
        return self.message(item), item.options.idempotency_key

    def message(self, item: Item) -> Message:
        """The envelope of one item; raises :class:`PublishRefused` naming the field and the remedy."""
        if item.body is None:
            return self.envelope(item.options, json_data(item.payload))
        if not isinstance(item.body, bytes):
            raise PublishRefused(
                f"The body is not bytes but {type(item.body).__name__}.", remedy="Use publish() for JSON.", field="body"
            )
        if is_json(item.content_type):
            return self.envelope(item.options, _json_text(item.body), content_type=item.content_type)
        return self.envelope(item.options, NO_DATA, binary=item.body, content_type=item.content_type)

    def envelope(
        self, options: PublishOptions, data: msgspec.Raw, *, binary: bytes | None = None, content_type: str = JSON
    ) -> Message:
        """Likewise, from the payload as it goes on the wire."""
        policy, now_ms, ambient = self._policy, self._now_ms, self._ambient
        if policy.schema is not None:
            _check_schema(policy, data, binary)
        message_id = options.message_id or next(self._ids, "") or self._new_id()
        if ambient or options.traceparent:
            traceparent = _traceparent(options, ambient)
        else:
            traceparent = next(self._traces, "") or self._new_trace()
        correlation_id = options.correlation_id or (ambient.correlation_id if ambient else message_id)
        if options is self._options and content_type == self._like.datacontenttype:
            # Many messages of a batch share their options: then all but these few was checked and worked out before.
            return msgspec.structs.replace(
                self._like,
                id=message_id,
                traceparent=traceparent,
                correlationid=correlation_id,
                data=data,
                data_base64=binary,
                extensions=dict(options.headers),
            )
        due_ms = due_of(options, now_ms)
        ttl_s = policy.ttl_s if options.ttl_s is None else options.ttl_s
        _check_options(options)
        message = Message(
            id=message_id,
            source=options.source or self._source,
            type=options.type or policy.name,
            time=self._time if options.time is None else to_rfc3339(_ms(options.time, "time")),
            subject=options.subject,
            datacontenttype=content_type,
            dataschema=self._dataschema,
            partitionkey=options.key,
            expirytime="" if ttl_s is None else _expiry(ttl_s, due_ms or now_ms),
            traceparent=traceparent,
            tracestate=options.tracestate,
            correlationid=correlation_id,
            causationid=options.causation_id or (ambient.message.id if ambient else ""),
            dataclassification=policy.classification,
            hbusdue=to_rfc3339(due_ms) if due_ms else "",
            hbuspriority="" if options.priority is Priority.NORMAL else _priority(policy, options.priority),
            data=data,
            data_base64=binary,
            extensions=dict(options.headers),
        )
        self._options, self._like = options, message
        return message

    def _new_id(self) -> str:
        if self._draw == 1:
            return new_id(self._now_ms)
        self._ids = iter(new_ids(self._now_ms, self._draw))
        return next(self._ids)

    def _new_trace(self) -> str:
        self._traces = iter(new_traceparents(self._draw))
        return next(self._traces)


def due_of(options: PublishOptions, now_ms: int) -> int:
    """Epoch milliseconds of the due time; 0 when the message is for now."""
    if options.delay_s is not None:
        if options.due is not None:
            raise PublishRefused("Both delay_s and due are given.", remedy="Give one of them.", field="due")
        # `not (x >= 0)` also refuses NaN.
        if not options.delay_s >= 0:
            raise PublishRefused("delay_s is negative.", remedy="Give seconds from now.", field="delay_s")
        if options.delay_s > DELAY_HORIZON_DAYS * 86_400:
            raise _beyond_horizon("delay_s")
        return now_ms + round(options.delay_s * 1000) if options.delay_s else 0
    if options.due is None:
        return 0
    due_ms = _ms(options.due, "due")
    check_horizon(due_ms, now_ms)
    return due_ms


def check_horizon(due_ms: int, now_ms: int) -> None:
    """Refuse a due time farther away than the delay path reaches."""
    if due_ms - now_ms > DELAY_HORIZON_DAYS * _DAY_MS:
        raise _beyond_horizon("due")


def due_ms_of(message: Message) -> int:
    """The due time of an envelope in epoch milliseconds; 0 when it has none."""
    return from_rfc3339(message.hbusdue) if message.hbusdue else 0


def digest(message: Message) -> str:
    """What an idempotency key stands for: type, payload and ordering key."""
    parts = hashlib.blake2b(digest_size=16)
    for part in (message.type.encode(), message.partitionkey.encode()):
        parts.update(len(part).to_bytes(4, "big"))
        parts.update(part)
    parts.update(message.payload())
    return parts.hexdigest()


def check_idempotency_key(key: str) -> None:
    """Refuse a key that is no text of 1 to :data:`KEY_LIMIT` characters."""
    if not isinstance(key, str) or len(key) > KEY_LIMIT:
        raise PublishRefused(
            f"The idempotency key is no text of at most {KEY_LIMIT} characters.",
            remedy="Use an id of the business event, or a digest.",
            field="idempotency_key",
        )


def _check_options(options: PublishOptions) -> None:
    if not _plain(options):
        _check_texts(options)
    if options.idempotency_key:
        check_idempotency_key(options.idempotency_key)
    if options.headers:
        _check_headers(options.headers)


def _plain(options: PublishOptions) -> bool:
    """Whether all texts together are so short and simple that none needs a look of its own."""
    message_id, causation_id = options.message_id, options.causation_id
    try:
        together = "".join(
            (
                options.type,
                options.key,
                options.correlation_id,
                options.source,
                options.subject,
                options.tracestate,
                message_id,
                causation_id,
            )
        )
    except TypeError:
        return False
    return (
        len(together) <= LONGEST["correlationid"]
        and len(message_id) <= LONGEST["id"]
        and len(causation_id) <= LONGEST["causationid"]
        and together.isprintable()
    )


def _check_texts(options: PublishOptions) -> None:
    named = (
        ("message_id", "id", options.message_id),
        ("source", "source", options.source),
        ("type", "type", options.type),
        ("key", "partitionkey", options.key),
        ("correlation_id", "correlationid", options.correlation_id),
        ("causation_id", "causationid", options.causation_id),
        ("subject", "subject", options.subject),
        ("tracestate", "tracestate", options.tracestate),
    )
    for field, attribute, value in named:
        if value != "":
            _check_value(field, attribute, value)


def _check_headers(headers: Mapping[str, str]) -> None:
    if len(headers) > HEADER_LIMIT:
        raise PublishRefused(
            f"{len(headers)} headers are more than {HEADER_LIMIT}.",
            remedy="What is large belongs in the payload.",
            field="headers",
        )
    for name, value in headers.items():
        if not isinstance(name, str) or not ATTRIBUTE_NAME.fullmatch(name):
            raise PublishRefused(
                f"Header name {name!r} is not allowed.",
                remedy="Use a-z and 0-9, at most 20 of them.",
                field=f"headers.{name}",
            )
        if name in KNOWN_ATTRIBUTES or name.startswith("hbus"):
            raise PublishRefused(
                f"Header name {name!r} is taken by the envelope.",
                remedy="Use the publish option for it, or another name.",
                field=f"headers.{name}",
            )
        _check_value(f"headers.{name}", name, value)


def _check_value(field: str, attribute: str, value: str) -> None:
    if not isinstance(value, str):
        raise PublishRefused(f"{field} is not text but {type(value).__name__}.", remedy="Send a string.", field=field)
    try:
        check_text(attribute, value)
    except MalformedEnvelope as error:
        raise PublishRefused(
            error.what.replace(f"Attribute {attribute}", field), remedy=error.remedy, field=field
        ) from None


def _json_text(body: bytes) -> msgspec.Raw:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PublishRefused(
            f"The body is not JSON: {error}.", remedy="Send valid JSON, or another content type.", field="body"
        ) from error
    return msgspec.Raw(body)


def _check_schema(policy: TopicPolicy, data: msgspec.Raw, binary: bytes | None) -> None:
    assert policy.schema is not None
    if binary is not None:
        raise PublishRefused(
            f"Topic {policy.name!r} has a JSON Schema, and the payload is not JSON.",
            remedy="Send JSON, or publish to a topic without a schema.",
            field="payload",
        )
    # Judged as it will be read: after encoding, not as the producer's objects.
    problem = policy.schema.problem(msgspec.json.decode(bytes(data)))
    if problem is not None:
        field, what = problem
        raise PublishRefused(
            f"The payload breaks the schema of {policy.name!r}: {what}.".replace("..", "."),
            remedy=f"See {policy.schema.uri}.",
            field=f"payload.{field}" if field else "payload",
        )


def _priority(policy: TopicPolicy, priority: Priority) -> str:
    try:
        known = Priority(priority)
    except ValueError:
        raise PublishRefused(
            f"Priority {priority!r} is not known.", remedy="Use low, normal or high.", field="priority"
        ) from None
    if known is Priority.NORMAL:
        return ""
    if not policy.priorities:
        raise PublishRefused(
            f"Topic {policy.name!r} takes no priorities.",
            remedy="Publish with normal priority, or switch priorities on in the topic's settings.",
            field="priority",
        )
    return known.value


def _traceparent(options: PublishOptions, ambient: context.Context | None) -> str:
    # A malformed one is ignored and a new trace begun, as the standard asks of a receiver.
    if options.traceparent and parse_traceparent(options.traceparent):
        return options.traceparent
    return str(ambient.trace.child() if ambient else new_trace())


def _expiry(ttl_s: float, from_ms: int) -> str:
    if not 0 < ttl_s <= TTL_HORIZON_DAYS * 86_400:
        raise PublishRefused(
            f"ttl_s {ttl_s:g} is not more than 0 and at most {TTL_HORIZON_DAYS} days.",
            remedy="Give the seconds after which nobody wants the message.",
            field="ttl_s",
        )
    return to_rfc3339(from_ms + round(ttl_s * 1000))


def _ms(moment: datetime, field: str) -> int:
    if moment.tzinfo is None:
        raise PublishRefused(f"{field} has no UTC offset.", remedy="Use an aware datetime.", field=field)
    return round(moment.timestamp() * 1000)


def _beyond_horizon(field: str) -> PublishRefused:
    return PublishRefused(
        f"{field} lies more than {DELAY_HORIZON_DAYS} days ahead.",
        remedy="Choose a nearer time; a job can publish it later.",
        field=field,
    )
