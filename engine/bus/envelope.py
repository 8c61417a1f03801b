"""Checking what others wrote: a CloudEvents envelope from outside, attribute by attribute."""

from __future__ import annotations

from engine.bus import trace
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import ATTRIBUTE_LIMIT, Message, decode
from engine.bus.transport import Priority
from engine.core.clock import from_rfc3339

#: The longest values the evidence can hold, in characters.
LONGEST = {
    "id": 64,
    "source": 300,
    "type": 200,
    "partitionkey": 200,
    "correlationid": 128,
    "causationid": 64,
}
_PRIORITIES = frozenset(priority.value for priority in Priority)
_INSTANTS = ("time", "expirytime", "hbusdue")


def read(body: bytes) -> Message:
    """Decode ``body`` and check it; see :func:`check`."""
    message = decode(body)
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
    if message.hbuspriority and message.hbuspriority not in _PRIORITIES:
        raise MalformedEnvelope(
            f"hbuspriority {message.hbuspriority!r} is not known.", remedy="Use low or high.", field="hbuspriority"
        )
    if message.traceparent and trace.parse(message.traceparent) is None:
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
