"""From payload and options to an envelope ready to go: every check of a publish that needs no store."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from engine.bus import context
from engine.bus.catalog import TopicPolicy
from engine.bus.errors import OwnerlessTopic, PublishRefused
from engine.bus.message import NO_DATA, Message, check_options, digest, encode
from engine.bus.options import DELAY_HORIZON_DAYS, NO_OPTIONS, PublishOptions
from engine.bus.partitions import partition_of
from engine.bus.transport import Outgoing, Priority
from engine.core.clock import from_rfc3339, to_rfc3339
from engine.core.ids import MANY, new_id, new_ids, new_traceparents, parse_traceparent, trace_id_of

JSON = "application/json"
#: The longest idempotency key, in characters.
KEY_LIMIT = 512
#: The farthest expiry, in days after the due time.
TTL_HORIZON_DAYS = 3_650

_DAY_MS = 86_400_000
_encoder = msgspec.json.Encoder()


class BatchItem(msgspec.Struct, frozen=True):
    """One message of a batch: ``payload`` as JSON or, when ``body`` is given, bytes of ``content_type``."""

    payload: Any = None
    options: PublishOptions = NO_OPTIONS
    body: bytes | None = None
    content_type: str = "application/octet-stream"


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """One envelope ready to go."""

    outgoing: Outgoing
    trace_id: str
    #: The message itself, or one of the same options: it differs in id, trace context and payload alone, and where its
    #: correlation id is its own id, so is this one's.
    like: Message


class EnvelopeBuilder:
    """Makes the envelopes of one call; what all of them share is worked out once.

    Inside a handler, what the options leave open (correlation, causation, trace) comes from the message being handled.
    With ``expected`` messages to make, their ids and trace contexts are drawn many at once.
    """

    __slots__ = (
        "_ambient",
        "_dataschema",
        "_draw",
        "_first",
        "_ids",
        "_now_ms",
        "_options",
        "_policy",
        "_source",
        "_stencil",
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
        #: The last message that was made in full, its options if others may share them, and the form of these.
        self._first: Message | None = None
        self._options: PublishOptions | None = None
        self._stencil: _Stencil | None = None

    def prepare(self, item: BatchItem) -> Prepared:
        """The envelope of one item, ready to go; raises :class:`PublishRefused` naming the field and the remedy."""
        options = item.options
        if options is self._options and item.body is None:
            # Many messages of a batch share their options: all but what differs was checked and written before.
            return self._alike(self._stencil or self._new_stencil(), json_data(item.payload))
        message = self.message(item)
        prepared = prepare(self._policy, message, options.idempotency_key)
        alike = self._draw > 1 and item.body is None and self._policy.partitions == 1
        self._stencil, self._first = None, message
        self._options = options if alike and not _unique(options) else None
        return prepared

    def message(self, item: BatchItem) -> Message:
        """The envelope of one item as a message; raises as :meth:`prepare`."""
        if item.body is None:
            return self._envelope(item.options, json_data(item.payload))
        if not isinstance(item.body, bytes):
            raise PublishRefused(
                f"The body is not bytes but {type(item.body).__name__}.", remedy="Use publish() for JSON.", field="body"
            )
        if is_json(item.content_type):
            return self._envelope(item.options, _json_text(item.body), content_type=item.content_type)
        return self._envelope(item.options, NO_DATA, binary=item.body, content_type=item.content_type)

    def _envelope(
        self, options: PublishOptions, data: msgspec.Raw, *, binary: bytes | None = None, content_type: str = JSON
    ) -> Message:
        policy, now_ms, ambient = self._policy, self._now_ms, self._ambient
        if policy.schema is not None:
            _check_schema(policy, data, binary)
        check_options(options)
        if options.idempotency_key:
            check_idempotency_key(options.idempotency_key)
        due_ms = due_of(options, now_ms)
        ttl_s = policy.ttl_s if options.ttl_s is None else options.ttl_s
        message_id = options.message_id or self._new_id()
        return Message(
            id=message_id,
            source=options.source or self._source,
            type=options.type or policy.name,
            time=self._time if options.time is None else to_rfc3339(_ms(options.time, "time")),
            subject=options.subject,
            datacontenttype=content_type,
            dataschema=self._dataschema,
            partitionkey=options.key,
            expirytime="" if ttl_s is None else _expiry(ttl_s, due_ms or now_ms),
            traceparent=self._traceparent(options),
            tracestate=options.tracestate,
            correlationid=options.correlation_id or (ambient.correlation_id if ambient else message_id),
            causationid=options.causation_id or (ambient.message.id if ambient else ""),
            dataclassification=policy.classification,
            hbusdue=to_rfc3339(due_ms) if due_ms else "",
            hbuspriority="" if options.priority is Priority.NORMAL else _priority(policy, options.priority),
            data=data,
            data_base64=binary,
            extensions=dict(options.headers),
        )

    def _new_stencil(self) -> _Stencil:
        assert self._first is not None
        self._stencil = _Stencil(self._first)
        return self._stencil

    def _alike(self, stencil: _Stencil, data: msgspec.Raw) -> Prepared:
        if self._policy.schema is not None:
            _check_schema(self._policy, data, None)
        message_id = next(self._ids, "") or self._draw_ids()
        traceparent = next(self._traces, "") or self._new_traceparent()
        own = message_id.encode()
        head, trace, correlation, payload, end = stencil.parts
        own_correlation = own if stencil.own_correlation else b""
        # None of the two holds anything that JSON would escape.
        body = b"".join((head, own, trace, traceparent.encode(), correlation, own_correlation, payload, data, end))
        return Prepared(Outgoing(message_id, body, stencil.priority), traceparent[3:35], stencil.like)

    def _new_id(self) -> str:
        if self._draw == 1:
            return new_id(self._now_ms)
        return next(self._ids, "") or self._draw_ids()

    def _draw_ids(self) -> str:
        self._ids = iter(new_ids(self._now_ms, self._draw))
        return next(self._ids)

    def _traceparent(self, options: PublishOptions) -> str:
        # A malformed one is ignored and a new trace begun, as the standard asks of a receiver.
        if options.traceparent and parse_traceparent(options.traceparent):
            return options.traceparent
        return self._new_traceparent()

    def _new_traceparent(self) -> str:
        if self._ambient:
            return str(self._ambient.trace.child())
        return next(self._traces, "") or self._draw_traces()

    def _draw_traces(self) -> str:
        self._traces = iter(new_traceparents(self._draw))
        return next(self._traces)


class _Stencil:
    """The wire form of envelopes that differ in nothing but id, trace context and payload, in the parts between."""

    # No text of anybody else's holds these: they are drawn anew by every process.
    _ID, _CORRELATION, _TRACE, _DATA = (secrets.token_hex(16) for _ in range(4))

    __slots__ = ("like", "own_correlation", "parts", "priority")

    def __init__(self, message: Message) -> None:
        self.like = message
        self.own_correlation = message.correlationid == message.id
        self.priority = Priority(message.hbuspriority) if message.hbuspriority else Priority.NORMAL
        marked = msgspec.structs.replace(
            message,
            id=self._ID,
            traceparent=self._TRACE,
            # Where it is nobody's own, it stands before a mark at which nothing is put in.
            correlationid=("" if self.own_correlation else message.correlationid) + self._CORRELATION,
            data=msgspec.Raw(f'"{self._DATA}"'.encode()),
        )
        marks = f'{self._ID}|{self._TRACE}|{self._CORRELATION}|"{self._DATA}"'.encode()
        self.parts = re.split(marks, encode(marked))


def prepare(policy: TopicPolicy, message: Message, idempotency_key: str) -> Prepared:
    """``message`` ready to go on its topic."""
    body = encode(message)
    priority = Priority(message.hbuspriority) if message.hbuspriority else Priority.NORMAL
    partition = partition_of(message.partitionkey, message.id, policy.partitions) if policy.partitions > 1 else 0
    if idempotency_key:
        window_ms = policy.idempotency_window_s * 1000
        outgoing = Outgoing(message.id, body, priority, idempotency_key, digest(message), window_ms, partition)
    else:
        outgoing = Outgoing(message.id, body, priority, partition=partition)
    return Prepared(outgoing, trace_id_of(message.traceparent), message)


def _unique(options: PublishOptions) -> bool:
    """Whether each message of these options needs a look of its own."""
    return bool(options.message_id or options.idempotency_key or options.traceparent)


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


def check_idempotency_key(key: str) -> None:
    """Refuse a key that is no text of 1 to :data:`KEY_LIMIT` characters."""
    if not isinstance(key, str) or len(key) > KEY_LIMIT:
        raise PublishRefused(
            f"The idempotency key is no text of at most {KEY_LIMIT} characters.",
            remedy="Use an id of the business event, or a digest.",
            field="idempotency_key",
        )


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
