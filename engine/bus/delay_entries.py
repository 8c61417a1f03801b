"""What the delay path keeps of a message, as it lies in the store."""

from __future__ import annotations

import msgspec

from engine.bus.errors import MalformedEnvelope
from engine.bus.message import decode
from engine.bus.publish_times import due_ms_of
from engine.core.prepared import prepared


def place_of(topic: str, source: str, message_id: str) -> str:
    """Where a message waits. Publishers choose ids: those of another topic or source are others'."""
    return msgspec.json.encode((topic, source, message_id)).decode()


def topic_of(place: bytes) -> str:
    """Whose message waits there; empty for a bare id, under which a release kept it that did not know places."""
    return name_of(place)[0]


def name_of(place: bytes) -> tuple[str, str, str]:
    """The topic, source and id of the message that waits there; of a bare id that alone."""
    try:
        return _place.decode(place)
    except msgspec.DecodeError:
        return "", "", place.decode(errors="replace")


class Due(msgspec.Struct, frozen=True, gc=False):
    """A message whose time has come, and the claim under which it is published."""

    #: Its :func:`place_of`, as bytes; or its bare id, if a release kept it that did not know places and nobody can read
    #: its envelope.
    place: bytes
    topic: str
    body: bytes
    #: Which topic of that name; empty where nobody knew when it was kept.
    incarnation: str = ""
    #: The key that was claimed for it at the transport, or empty.
    claimed_key: str = ""
    #: Its place in the order of those of its topic, in epoch milliseconds.
    due_ms: float = 0
    #: When its claim ends, in epoch milliseconds: it tells this claim from any later one of the place.
    ends_ms: int = 0
    #: Whether a claim before ran out: under that it may have been sent.
    again: bool = False


class DelayEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One message that waits."""

    topic: str
    body: bytes
    incarnation: str = ""
    claimed_key: str = ""

    def told_due_ms(self) -> int:
        """The due time that the envelope tells; 0 where nobody can read it."""
        try:
            return due_ms_of(decode(self.body))
        except (MalformedEnvelope, ValueError):
            return 0


_place = msgspec.json.Decoder(prepared(tuple[str, str, str]))
_encoder = msgspec.msgpack.Encoder()
_entry = msgspec.msgpack.Decoder(prepared(DelayEntry))


def written(entry: DelayEntry, digest: str) -> bytes:
    """The digest leads, where the store's script can compare it."""
    return digest.encode() + b"\0" + _encoder.encode(entry)


def is_former(lies: bytes) -> bool:
    """A release without places and digests began with the entry, whose first byte is no text."""
    return lies[:1] > b"\x7f"


def read(lies: bytes) -> DelayEntry:
    """Raises ``msgspec.DecodeError``."""
    return _entry.decode(lies if is_former(lies) else lies.partition(b"\0")[2])
