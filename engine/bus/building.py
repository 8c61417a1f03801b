"""From payload and options to an envelope ready to go: every check of a publish that needs no store."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.bus import context
from engine.bus.catalog import TopicPolicy
from engine.bus.errors import OwnerlessTopic, PublishRefused, TopicReplaced
from engine.bus.message import NO_DATA, PRIORITIES, Message, check_options, digest, encode
from engine.bus.options import NO_OPTIONS, PublishOptions
from engine.bus.partitions import partition_of
from engine.bus.publish_times import TTL_HORIZON_DAYS, due_ms_of, due_of, expires_ms_of, ms_of
from engine.bus.transport import Outgoing, Priority
from engine.core.clock import to_rfc3339
from engine.core.ids import new_id, new_ids, new_traceparents, parse_traceparent, trace_id_of
from engine.core.nesting import DEEPEST, too_deep
from engine.core.strict_json import NotJson, read_json

JSON = "application/json"
#: The longest idempotency key, in characters.
KEY_LIMIT = 512
#: How the keys begin under which delayed messages are published. Publishers may not use such keys.
DUE_KEYS = "hbus-due:"

_NOBODY = Message(id="", source="", type="")
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
    """

    __slots__ = ("_ambient", "_dataschema", "_first", "_now_ms", "_options", "_policy", "_source", "_stencil", "_time")

    def __init__(self, policy: TopicPolicy, *, source: str, now_ms: int) -> None:
        self._policy = policy
        self._source = source
        self._now_ms = now_ms
        self._time = to_rfc3339(now_ms)
        self._dataschema = policy.schema.uri if policy.schema else ""
        self._ambient = context.current()
        #: The last message that was made by itself, its options if others may share them, and the form of these.
        self._first = _NOBODY
        self._options: PublishOptions | None = None
        self._stencil: _Stencil | None = None

    def prepare(self, items: Sequence[BatchItem]) -> list[Prepared | PublishRefused]:
        """The envelopes of at most :data:`~engine.core.ids.MANY` items, ready to go, each in its place.

        A refusal names the field and the remedy.
        """
        ids, traces = new_ids(self._now_ms, len(items)), self._new_traces(len(items))
        made: list[Prepared | PublishRefused] = []
        while (place := len(made)) < len(items):
            item = items[place]
            # Many messages of a batch share their options: all but what differs was checked and written before.
            if item.options is self._options and (written := self._written(items[place:])):
                made += self._alike(written, ids[place : place + len(written)], traces[place : place + len(written)])
            else:
                made.append(self._by_itself(item, ids[place], traces[place]))
        return made

    def message(self, item: BatchItem) -> Message:
        """The envelope of one item as a message; raises :class:`PublishRefused` naming the field and the remedy."""
        return self._message(item, new_id(self._now_ms), self._new_traces(1)[0])

    def _new_traces(self, count: int) -> list[str]:
        if self._ambient:
            return [str(self._ambient.trace.child()) for _ in range(count)]
        return new_traceparents(count)

    def _by_itself(self, item: BatchItem, message_id: str, traceparent: str) -> Prepared | PublishRefused:
        self._options, self._stencil = None, None
        options = item.options
        try:
            message = self._message(item, message_id, traceparent)
            prepared = prepare(self._policy, message, options.idempotency_key, options.idempotency_at_least_s)
        except PublishRefused as error:
            return error
        if item.body is None and not _unique(options) and self._policy.partitions == 1:
            self._options, self._first = options, message
        return prepared

    def _written(self, items: Sequence[BatchItem]) -> list[bytes]:
        """The payloads of those of ``items`` that come first, share their options and are refused nothing."""
        options, schema, encode_payload = self._options, self._policy.schema, _encoder.encode
        written: list[bytes] = []
        try:
            for item in items:
                payload = item.payload
                if item.options is not options or item.body is not None:
                    break
                data = encode_payload(payload)
                if type(payload) is msgspec.Raw:
                    _json_text(data, "payload")
                # As _check_nesting does, without the call.
                if data.count(b"[") + data.count(b"{") > DEEPEST:
                    _check_nesting(data, "payload")
                if schema is not None:
                    _check_schema(self._policy, msgspec.Raw(data), None)
                written.append(data)
        except (TypeError, ValueError, RecursionError, PublishRefused):
            # Why comes out when it is made by itself.
            pass
        return written

    def _alike(self, written: Sequence[bytes], ids: Sequence[str], traces: Sequence[str]) -> list[Prepared]:
        """Messages that share the options of the last one made by itself."""
        stencil = self._stencil = self._stencil or _Stencil(self._first)
        like, priority, alone = stencil.like, stencil.priority, stencil.own_correlation
        head, trace, correlation, payload, end = stencil.parts
        # Neither ids nor trace contexts hold anything that JSON would escape.
        bodies = [
            b"".join((head, own, trace, told.encode(), correlation, own if alone else b"", payload, data, end))
            for own, told, data in zip(map(str.encode, ids), traces, written, strict=True)
        ]
        return [
            Prepared(Outgoing(message_id, body, priority), traceparent[3:35], like)
            for message_id, body, traceparent in zip(ids, bodies, traces, strict=True)
        ]

    def _message(self, item: BatchItem, message_id: str, traceparent: str) -> Message:
        body, content_type = item.body, item.content_type
        if body is None:
            data, binary, content_type = json_data(item.payload), None, JSON
        elif not isinstance(body, bytes):
            raise PublishRefused(
                f"The body is not bytes but {type(body).__name__}.", remedy="Use publish() for JSON.", field="body"
            )
        else:
            data, binary = (_json_text(body, "body"), None) if is_json(content_type) else (NO_DATA, body)
        policy, options, now_ms, ambient = self._policy, item.options, self._now_ms, self._ambient
        if policy.schema is not None:
            _check_schema(policy, data, binary)
        check_options(options)
        if options.idempotency_key:
            check_idempotency_key(options.idempotency_key)
        # Of most there is nothing to reckon, and whoever reads what happens at a publish need not know how.
        due_ms = due_of(options, now_ms) if options.delay_s is not None or options.due is not None else 0
        message_id = options.message_id or message_id
        # A malformed trace context is ignored and a new trace begun, as the standard asks of a receiver.
        if options.traceparent and parse_traceparent(options.traceparent):
            traceparent = options.traceparent
        return Message(
            id=message_id,
            source=options.source or self._source,
            type=options.type or policy.name,
            time=self._time if options.time is None else to_rfc3339(ms_of(options.time, "time")),
            subject=options.subject,
            datacontenttype=content_type,
            dataschema=self._schema_of(options) if options.dataschema else self._dataschema,
            sequence=options.sequence,
            partitionkey=options.key,
            expirytime=_expiry(options, policy.ttl_s, due_ms or now_ms),
            traceparent=traceparent,
            tracestate=options.tracestate,
            correlationid=options.correlation_id or (ambient.correlation_id if ambient else message_id),
            causationid=options.causation_id or (ambient.message.id if ambient else ""),
            dataclassification=_classification(policy, options.classification),
            hbusdue=to_rfc3339(due_ms) if due_ms else "",
            hbuspriority="" if options.priority is Priority.NORMAL else _priority(policy, options.priority),
            data=data,
            data_base64=binary,
            extensions=dict(options.headers),
        )

    def _schema_of(self, options: PublishOptions) -> str:
        if self._dataschema in ("", options.dataschema):
            return options.dataschema
        raise PublishRefused(
            f"Topic {self._policy.name!r} has a schema of its own, {self._dataschema}: not {options.dataschema}.",
            remedy="Leave dataschema out: every message there is checked against the topic's.",
            field="dataschema",
        )


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


def prepare(policy: TopicPolicy, message: Message, idempotency_key: str, at_least_s: int = 0) -> Prepared:
    """``message`` ready to go on its topic, its key to be remembered for the topic's window or longer."""
    body, trace_id = encode(message), trace_id_of(message.traceparent)
    if not idempotency_key and not message.hbuspriority and policy.partitions == 1:
        return Prepared(Outgoing(message.id, body), trace_id, message)
    priority = Priority(message.hbuspriority) if message.hbuspriority in PRIORITIES else Priority.NORMAL
    partition = partition_of(message.partitionkey, message.id, policy.partitions) if policy.partitions > 1 else 0
    if not idempotency_key:
        return Prepared(Outgoing(message.id, body, priority, partition=partition), trace_id, message)
    window_ms = max(policy.idempotency_window_s, at_least_s) * 1000
    outgoing = Outgoing(message.id, body, priority, idempotency_key, digest(message), window_ms, partition)
    return Prepared(outgoing, trace_id, message)


def prepare_or_refuse(
    policy: TopicPolicy, message: Message, idempotency_key: str, at_least_s: int = 0
) -> Prepared | PublishRefused:
    """Likewise, or why it may not go: it may be a stranger's. A priority that nobody knows is none."""
    try:
        if idempotency_key:
            check_idempotency_key(idempotency_key)
    except PublishRefused as error:
        return error
    return prepare_stranger(policy, message, idempotency_key, at_least_s)


def prepare_stranger(
    policy: TopicPolicy, message: Message, idempotency_key: str, at_least_s: int = 0
) -> Prepared | PublishRefused:
    """Likewise, under a key that needs no check: whatever else stands in ``message`` nobody here has written."""
    try:
        due_ms_of(message)
        return prepare(policy, message, idempotency_key, at_least_s)
    except PublishRefused as error:
        return error
    except ValueError:
        return PublishRefused("Its due time is not an RFC 3339 instant.", remedy="Publish it anew.", field="hbusdue")


def _unique(options: PublishOptions) -> bool:
    """Whether each message of these options needs a look of its own."""
    return bool(options.message_id or options.idempotency_key or options.traceparent)


def check_topic(policy: TopicPolicy, meant: str = "") -> None:
    """Raise :class:`OwnerlessTopic` when nobody answers for it, :class:`TopicReplaced` when another was ``meant``."""
    if meant and policy.incarnation not in ("", meant):
        raise TopicReplaced(policy.name)
    if not policy.owner:
        raise OwnerlessTopic(policy.name)


def json_data(payload: Any) -> msgspec.Raw:
    """The payload as JSON text; ``msgspec.Raw`` is kept byte for byte if it is JSON, or empty for no payload. A ``Raw``
    inside of other values is its maker's word. Raises :class:`PublishRefused`."""
    if isinstance(payload, msgspec.Raw):
        text = bytes(payload)
        return _json_text(text, "payload") if text else payload
    try:
        data = _encoder.encode(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise PublishRefused(
            f"The payload cannot be written as JSON: {error}.",
            remedy="Send JSON values, a msgspec.Struct or a dataclass; send bytes with publish_raw.",
            field="payload",
        ) from error
    _check_nesting(data, "payload")
    return msgspec.Raw(data)


def is_json(content_type: str) -> bool:
    """Whether a media type says JSON."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == JSON or media_type.endswith("+json")


def check_idempotency_key(key: str) -> None:
    """Refuse a key that is no text of 1 to :data:`KEY_LIMIT` characters, or is one of :data:`DUE_KEYS`."""
    if not isinstance(key, str) or len(key) > KEY_LIMIT or key.startswith(DUE_KEYS):
        raise PublishRefused(
            f"The idempotency key is no text of at most {KEY_LIMIT} characters, or begins as keys of ours: {DUE_KEYS}",
            remedy="Use an id of the business event, or a digest.",
            field="idempotency_key",
        )


def _json_text(text: bytes, field: str) -> msgspec.Raw:
    _check_nesting(text, field)
    try:
        read_json(text)
    except NotJson as error:
        raise PublishRefused(
            f"The {field} is not JSON that everybody reads: {error}.",
            remedy="Send JSON in UTF-8 with finite numbers of at most 4,300 digits; anything else goes as bytes.",
            field=field,
        ) from error
    return msgspec.Raw(text)


def _check_nesting(data: bytes, field: str) -> None:
    # Most payloads hold so few brackets that counting them is enough.
    if data.count(b"[") + data.count(b"{") > DEEPEST and too_deep(data):
        raise PublishRefused(
            f"The payload nests deeper than {DEEPEST} levels.", remedy="Flatten it, or send it as bytes.", field=field
        )


def _check_schema(policy: TopicPolicy, data: msgspec.Raw, binary: bytes | None) -> None:
    assert policy.schema is not None
    if binary is not None or not data:
        what = "the payload is not JSON" if binary is not None else "the message has no payload"
        raise PublishRefused(
            f"Topic {policy.name!r} has a JSON Schema, and {what}.",
            remedy="Send JSON, if only null; or publish to a topic without a schema.",
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


def _expiry(options: PublishOptions, topic_ttl_s: float | None, from_ms: int) -> str:
    if options.expires is not None:
        return to_rfc3339(expires_ms_of(options, from_ms))
    ttl_s = topic_ttl_s if options.ttl_s is None else options.ttl_s
    if ttl_s is None:
        return ""
    if not 0 < ttl_s <= TTL_HORIZON_DAYS * 86_400:
        raise PublishRefused(
            f"ttl_s {ttl_s:g} is not more than 0 and at most {TTL_HORIZON_DAYS} days.",
            remedy="Give the seconds after which nobody wants the message.",
            field="ttl_s",
        )
    return to_rfc3339(from_ms + round(ttl_s * 1000))


def _classification(policy: TopicPolicy, asked: str) -> str:
    # Taken for the topic's, personal data would be shown where only internal data is.
    if asked not in ("", policy.classification):
        raise PublishRefused(
            f"Topic {policy.name!r} holds {policy.classification} data, not {asked!r}.",
            remedy="Leave the classification out, or publish to a topic of that classification.",
            field="classification",
        )
    return policy.classification


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
