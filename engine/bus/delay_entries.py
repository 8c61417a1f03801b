"""What the delay path keeps of a message, as it lies in the store."""

from __future__ import annotations

import msgspec

from engine.bus.errors import MalformedEnvelope
from engine.bus.message import decode
from engine.bus.publish_times import due_ms_of
from engine.core.prepared import prepared


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
