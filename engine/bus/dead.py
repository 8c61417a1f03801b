"""Why a message died: the record kept beside its envelope, and the fingerprint that groups deaths of one cause."""

from __future__ import annotations

import hashlib
import re

import msgspec

from engine.bus.transport import Attempt

#: The longest normalised message kept in a cause, in characters.
CAUSE_LIMIT = 400
#: The longest error text kept, in characters: the message and the end of the traceback.
ERROR_LIMIT = 8_000

_VARIES = (
    # Order matters: quoted text may hold ids, and ids may hold numbers.
    (re.compile(r"(?<!\w)'(?:[^'\\\n]|\\.){0,500}'(?!\w)|\"(?:[^\"\\\n]|\\.){0,500}\"|`[^`\n]{0,500}`"), "…"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "#"),
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"), "#"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "#"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), "#"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
    (re.compile(r"\s+"), " "),
)


class DeadRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stored as JSON in the transport's dead letters until the layer above takes the letter over.

    ``cause`` is the error class and its message without what differs from case to case; ``error`` the whole text with
    the end of the traceback; times are epoch milliseconds; ``history`` holds every attempt, the last one included.
    """

    cause: str
    error: str
    fingerprint: str
    attempts: int
    history: tuple[Attempt, ...]
    first_failed_ms: int
    died_ms: int
    topic: str
    group: str
    consumer: str
    handler: str
    #: No attempt was worth repeating: the handler said so, or the envelope could not be read.
    unrecoverable: bool = False


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(DeadRecord)


def encode(record: DeadRecord) -> bytes:
    """The stored form."""
    return _encoder.encode(record)


def decode(body: bytes) -> DeadRecord:
    """Raises ``msgspec.DecodeError`` when ``body`` is no record."""
    return _decoder.decode(body)


def normalise(message: str) -> str:
    """``message`` on one line without quoted text, ids and numbers, which differ between cases of one cause."""
    text = message[: CAUSE_LIMIT * 4]
    for pattern, stand_in in _VARIES:
        text = pattern.sub(stand_in, text)
    return text.strip()[:CAUSE_LIMIT]


def cause_of(error_class: str, message: str) -> str:
    """What the operator reads as the cause of a group of dead letters."""
    said = normalise(message)
    return f"{error_class}: {said}" if said else error_class


def fingerprint(group: str, error_class: str, message: str) -> str:
    """16 hex digits, the same for failures of one cause in one subscription."""
    text = "\x00".join((group, error_class, normalise(message)))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
