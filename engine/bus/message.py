"""The message: a CloudEvents 1.0 envelope in structured JSON mode, with JSON or binary data.

Attributes of the specification and of its documented extensions carry their standard names; ours begin with
``hbus``. Anything else a producer adds travels in :attr:`Message.extensions` and is forwarded; integers and booleans
become the text that CloudEvents 1.0 §3.1 gives them.
"""

from __future__ import annotations

import builtins
import re
from typing import Any, TypeVar

import msgspec

from engine.bus.errors import MalformedEnvelope
from engine.core.clock import from_rfc3339

T = TypeVar("T")

#: Stands for "no JSON data"; a message has JSON data, binary data, or neither.
NO_DATA = msgspec.Raw(b"")
#: The largest value of one attribute, in bytes of UTF-8.
ATTRIBUTE_LIMIT = 4_096
#: CloudEvents 1.0 §3.1: lower-case letters and digits, at most 20 of them.
ATTRIBUTE_NAME = re.compile(r"[a-z0-9]{1,20}")


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
    :func:`encode`, which know where the further attributes go."""

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
        """The payload as Python values; ``None`` when there is none. Binary payloads raise ``TypeError``."""
        if self.data_base64 is not None:
            raise TypeError(f"message {self.id} carries bytes, not JSON; use payload()")
        raw = bytes(self.data)
        return msgspec.json.decode(raw) if raw else None

    def decode(self, into: builtins.type[T]) -> T:
        """The JSON payload as an instance of ``into``; raises ``msgspec.ValidationError`` naming the field."""
        return msgspec.json.decode(bytes(self.data), type=into)

    def payload(self) -> bytes:
        """The payload's bytes: JSON text, or the binary data."""
        return bytes(self.data) if self.data_base64 is None else self.data_base64

    def expires_ms(self) -> int | None:
        """The expiry in epoch milliseconds, or ``None``."""
        return from_rfc3339(self.expirytime) if self.expirytime else None


#: The member names of the wire form.
KNOWN_ATTRIBUTES = frozenset(Message.__struct_encode_fields__) - {"_extensions"} | {"specversion"}

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Message)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def encode(message: Message) -> bytes:
    """The wire form: one JSON object, UTF-8, no trailing newline."""
    if not message.extensions:
        return _encoder.encode(message)
    extensions = _encoder.encode(message.extensions)
    plain = _encoder.encode(msgspec.structs.replace(message, extensions={}))
    return plain[:-1] + b"," + extensions[1:]


def decode(body: bytes) -> Message:
    """Read a wire form of any producer.

    Raises :class:`MalformedEnvelope` naming the attribute when ``body`` is no CloudEvents 1.0 envelope.
    """
    try:
        message = _decoder.decode(body)
    except msgspec.ValidationError:
        # Either it is malformed or it carries further attributes. Looking only now keeps the common case at one pass.
        return _decode_extended(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(error) from error
    if message.extensions:
        raise _bad_name("_extensions")
    return message


def _decode_extended(body: bytes) -> Message:
    try:
        members = _members.decode(body)
        further = {name: members.pop(name) for name in [*members] if name not in KNOWN_ATTRIBUTES}
        message = _decoder.decode(_encoder.encode(members))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(error) from error
    extensions = {name: _extension(name, raw) for name, raw in further.items()}
    return msgspec.structs.replace(message, extensions=extensions)


def _extension(name: str, raw: msgspec.Raw) -> str:
    if not ATTRIBUTE_NAME.fullmatch(name):
        raise _bad_name(name)
    value = msgspec.json.decode(bytes(raw))
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
        f"Not a CloudEvents 1.0 envelope: {error}.",
        remedy="Send structured JSON with specversion 1.0, id, source and type.",
        field=_path_of(error),
    )


def _path_of(error: Exception) -> str:
    found = re.search(r"at `\$\.?([^`]*)`", str(error)) or re.search(r"required field `([^`]+)`", str(error))
    return found.group(1) if found else ""
