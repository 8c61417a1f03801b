"""The message: a CloudEvents 1.0 envelope in structured JSON mode, with JSON or binary data.

Attributes of the specification and of its documented extensions carry their standard names; ours begin with
``hbus``. Anything else a producer adds travels in :attr:`Message.extensions` and is forwarded; integers and booleans
become the text that CloudEvents 1.0 §3.1 gives them. What others wrote, or ask for, is checked attribute by attribute.
"""

from __future__ import annotations

import builtins
import hashlib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from engine.bus.errors import MalformedEnvelope, PublishRefused
from engine.bus.options import PublishOptions
from engine.bus.transport import Priority
from engine.core.clock import from_rfc3339
from engine.core.error_text import words_of
from engine.core.ids import parse_traceparent
from engine.core.prepared import prepared
from engine.core.strict_json import read_json

T = TypeVar("T")

#: Stands for "no JSON data"; a message has JSON data, binary data, or neither.
NO_DATA = msgspec.Raw(b"")
#: The largest value of one attribute, in bytes of UTF-8.
ATTRIBUTE_LIMIT = 4_096
#: CloudEvents 1.0 §3.1: lower-case letters and digits, at most 20 of them.
ATTRIBUTE_NAME = re.compile(r"[a-z0-9]{1,20}")
#: The longest values the evidence can hold, in characters.
LONGEST = {
    "id": 64,
    "source": 300,
    "type": 200,
    "partitionkey": 200,
    "correlationid": 128,
    "causationid": 64,
}
#: How many headers one message may carry.
HEADER_LIMIT = 50
#: What a priority may say of itself.
PRIORITIES = frozenset(priority.value for priority in Priority)
_INSTANTS = ("time", "expirytime", "hbusdue")


class Message(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    tag_field="specversion",
    tag="1.0",
):
    """One immutable message. ``source`` + ``id`` is its identity. Read and write it with :func:`decode` and
    :func:`encode`, which know where the further attributes go; :func:`read` is for what comes from outside."""

    id: str
    source: str
    type: str
    #: When it happened, RFC 3339.
    time: str = ""
    subject: str = ""
    datacontenttype: str = ""
    dataschema: str = ""
    #: The ordering key.
    partitionkey: str = ""
    sequence: str = ""
    #: After this instant (RFC 3339) nobody wants it any more.
    expirytime: str = ""
    traceparent: str = ""
    tracestate: str = ""
    correlationid: str = ""
    causationid: str = ""
    dataclassification: str = ""
    #: Not to be delivered before this instant (RFC 3339).
    hbusdue: str = ""
    #: ``low`` or ``high``; absent means normal.
    hbuspriority: str = ""
    #: ``redrive`` or ``replay`` when it is a copy; ``causationid`` then names the original.
    hbusreplay: str = ""
    #: The only subscription that shall handle it, when it is not for all: the others settle it unhandled.
    hbustarget: str = ""
    #: Payload as JSON, kept byte for byte.
    data: msgspec.Raw = NO_DATA
    #: Payload as bytes; base64 on the wire.
    data_base64: bytes | None = None
    #: Further attributes. The wire has no such member: :func:`encode` puts them beside the others.
    extensions: dict[str, str] = msgspec.field(default_factory=dict, name="_extensions")

    def json(self) -> Any:
        """The payload as Python values; ``None`` when there is none. Binary payloads raise ``TypeError``.

        What lies in a store may come from any writer: raises :class:`~engine.core.strict_json.NotJson` for text that
        is not JSON, or not JSON that everybody reads.
        """
        if self.data_base64 is not None:
            raise TypeError(f"message {self.id} carries bytes, not JSON; use payload()")
        raw = bytes(self.data)
        return read_json(raw) if raw else None

    def decode(self, into: builtins.type[T]) -> T:
        """The JSON payload as an instance of ``into``; raises ``msgspec.ValidationError`` naming the field."""
        return msgspec.json.decode(bytes(self.data), type=prepared(into))

    def payload(self) -> bytes:
        """The payload's bytes: JSON text, or the binary data."""
        return bytes(self.data) if self.data_base64 is None else self.data_base64

    def expires_ms(self) -> int | None:
        """The expiry in epoch milliseconds, or ``None``."""
        return from_rfc3339(self.expirytime) if self.expirytime else None


class Versioned(msgspec.Struct):
    """An envelope, as far as it says which CloudEvents it follows. A :class:`Message` is read without that, too."""

    specversion: str


#: The member names of the wire form.
KNOWN_ATTRIBUTES = frozenset(Message.__struct_encode_fields__) - {"_extensions"} | {"specversion"}

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(prepared(Message))
_version_decoder = msgspec.json.Decoder(prepared(Versioned))
_members = msgspec.json.Decoder(prepared(dict[str, msgspec.Raw]))


def encode(message: Message) -> bytes:
    """The wire form: one JSON object, UTF-8, no trailing newline."""
    if not message.extensions:
        return _encoder.encode(message)
    extensions = _encoder.encode(message.extensions)
    plain = _encoder.encode(msgspec.structs.replace(message, extensions={}))
    return plain[:-1] + b"," + extensions[1:]


#: What the decoder raises on bytes that are no JSON, or nested deeper than anybody follows.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode(body: bytes) -> Message:
    """Read a wire form of any producer.

    Raises :class:`MalformedEnvelope` naming the attribute when ``body`` is no CloudEvents 1.0 envelope.
    """
    try:
        message = _decoder.decode(body)
    except msgspec.ValidationError:
        # Either it is malformed or it carries further attributes. Looking only now keeps the common case at one pass.
        return _decode_extended(body)
    except UNREADABLE as error:
        raise _malformed(error) from error
    if message.extensions:
        raise _bad_name("_extensions")
    return message


def _decode_extended(body: bytes) -> Message:
    try:
        members = _members.decode(body)
        further = {name: members.pop(name) for name in [*members] if name not in KNOWN_ATTRIBUTES}
        message = _decoder.decode(_encoder.encode(members))
        extensions = {name: _extension(name, raw) for name, raw in further.items()}
    except UNREADABLE as error:
        raise _malformed(error) from error
    return msgspec.structs.replace(message, extensions=extensions)


def _extension(name: str, raw: msgspec.Raw) -> str:
    if not ATTRIBUTE_NAME.fullmatch(name):
        raise _bad_name(name)
    try:
        value = msgspec.json.decode(bytes(raw))
    except UNREADABLE as error:
        raise _malformed(error) from error
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise MalformedEnvelope(
            f"Attribute {name} is no text, whole number or boolean.", remedy="Send a string.", field=name
        )
    return value


def _bad_name(name: str) -> MalformedEnvelope:
    return MalformedEnvelope(
        f"Attribute name {name!r} is not allowed.", remedy="Use a-z and 0-9, at most 20 of them.", field=name
    )


def _malformed(error: Exception) -> MalformedEnvelope:
    return MalformedEnvelope(
        f"Not a CloudEvents 1.0 envelope: {words_of(error)}.",
        remedy="Send structured JSON with specversion 1.0, id, source and type.",
        field=_path_of(error),
    )


def _path_of(error: Exception) -> str:
    words = words_of(error)
    found = re.search(r"at `\$\.?([^`]*)`", words) or re.search(r"required field `([^`]+)`", words)
    return found.group(1) if found else ""


def digest(message: Message) -> str:
    """What an idempotency key stands for: type, payload and ordering key."""
    parts = hashlib.blake2b(digest_size=16)
    for part in (message.type.encode(), message.partitionkey.encode()):
        parts.update(len(part).to_bytes(4, "big"))
        parts.update(part)
    parts.update(message.payload())
    return parts.hexdigest()


def read(body: bytes) -> Message:
    """Decode ``body`` and check it; see :func:`check`. Unlike what lies in a store it must have a ``specversion``."""
    message = decode(body)
    try:
        _version_decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _malformed(error) from error
    check(message)
    return message


def check(message: Message) -> None:
    """Raise :class:`MalformedEnvelope`, naming the attribute, unless every attribute we know is well-formed.

    Required ones must not be empty, instants are RFC 3339 with an offset, the priority is one we have, and a
    ``traceparent`` follows W3C Trace Context.
    """
    for name in ("id", "source", "type"):
        if not getattr(message, name):
            raise MalformedEnvelope(f"Attribute {name} is empty.", remedy="Give it a value.", field=name)
    for name in LONGEST:
        check_text(name, getattr(message, name))
    for name in ("subject", "tracestate", "dataschema", "datacontenttype", "sequence"):
        check_text(name, getattr(message, name))
    for name, value in message.extensions.items():
        check_text(name, value)
    for name in _INSTANTS:
        _check_instant(name, getattr(message, name))
    if message.hbuspriority and message.hbuspriority not in PRIORITIES:
        raise MalformedEnvelope(
            f"hbuspriority {message.hbuspriority!r} is not known.", remedy="Use low or high.", field="hbuspriority"
        )
    if message.traceparent and parse_traceparent(message.traceparent) is None:
        raise MalformedEnvelope(
            f"traceparent {message.traceparent[:80]!r} does not follow W3C Trace Context.",
            remedy="Leave it out, or send 00-<32 hex>-<16 hex>-<2 hex>.",
            field="traceparent",
        )
    if message.data_base64 is not None and bytes(message.data):
        raise MalformedEnvelope("Both data and data_base64 are there.", remedy="Send one of them.", field="data")


def check_text(name: str, value: str) -> None:
    """Refuse a value that is too long for its attribute or that CloudEvents does not allow in text."""
    limit = LONGEST.get(name, ATTRIBUTE_LIMIT)
    if len(value) > limit or (limit == ATTRIBUTE_LIMIT and len(value) * 4 > limit and _bytes(name, value) > limit):
        raise MalformedEnvelope(
            f"Attribute {name} is longer than {limit} {'bytes' if limit == ATTRIBUTE_LIMIT else 'characters'}.",
            remedy="Shorten it; what is large belongs in the payload.",
            field=name,
        )
    if value.isprintable():
        # Printable covers neither controls nor lone surrogates, so nothing more is to be checked.
        return
    for letter in value:
        code = ord(letter)
        if code < 0x20 or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF:
            raise MalformedEnvelope(
                f"Attribute {name} holds the character U+{code:04X}, which text may not hold.",
                remedy="Remove control characters.",
                field=name,
            )


def _bytes(name: str, value: str) -> int:
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:
        raise MalformedEnvelope(f"Attribute {name} is not text: {error}.", remedy="Send UTF-8.", field=name) from error


def _check_instant(name: str, value: str) -> None:
    if not value:
        return
    try:
        from_rfc3339(value)
    except ValueError as error:
        raise MalformedEnvelope(
            f"{name} {value!r} is not an RFC 3339 instant: {error}.",
            remedy="Write 2026-11-21T08:00:00Z.",
            field=name,
        ) from error


def check_options(options: PublishOptions) -> None:
    """Raise :class:`PublishRefused`, naming the option, unless each text of ``options`` may stand in an envelope."""
    if not _plain(options):
        _check_texts(options)
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
                options.sequence,
                options.dataschema,
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
        ("sequence", "sequence", options.sequence),
        ("dataschema", "dataschema", options.dataschema),
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
