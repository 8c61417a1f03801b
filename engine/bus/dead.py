"""What becomes of a failed attempt: another one, or a dead letter with its record and the fingerprint of its cause."""

from __future__ import annotations

import hashlib
import random
import re

import msgspec

from engine.bus.errors import MalformedEnvelope, RetryLater, Unrecoverable
from engine.bus.policy import SubscriptionPolicy
from engine.bus.transport import Attempt, Verdict
from engine.core.clock import jitter, to_datetime
from engine.core.error_text import class_of, storable, text_of, words_of
from engine.core.prepared import prepared
from engine.core.stack_text import stack_of

#: The longest normalised message kept in a cause, in characters.
CAUSE_LIMIT = 400
#: The longest error text kept, in characters: the message and the innermost of the stack trace.
ERROR_LIMIT = 8_000
#: The longest error text of one attempt in the history, in characters.
ATTEMPT_ERROR_LIMIT = 500
#: The longest pause a handler may ask for, in seconds.
LONGEST_RETRY_S = 86_400.0

#: How much of a message is looked at, in characters.
LOOKED_AT = CAUSE_LIMIT * 4
#: Stands for a quoted text in a cause; everything else that varies is a number or an id.
QUOTED = "…"
#: What differs from case to case, and what stands for it.
VARIES = (
    # Order matters: quoted text may hold ids, and ids may hold numbers.
    (re.compile(r"(?<!\w)'(?:[^'\\\n]|\\.){0,500}'(?!\w)|\"(?:[^\"\\\n]|\\.){0,500}\"|`[^`\n]{0,500}`"), QUOTED),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "#"),
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"), "#"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "#"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), "#"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
)
SPACE = re.compile(r"\s+")


class DeadRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stored as JSON in the transport's dead letters until the layer above takes the letter over.

    ``cause`` is the error class and its message without what differs from case to case; ``error`` the whole text with
    the stack trace; times are epoch milliseconds; ``history`` holds every attempt, the last one included.
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


class RetryDecision(msgspec.Struct, frozen=True):
    """What to do with a failed attempt."""

    verdict: Verdict
    attempt: Attempt
    fingerprint: str
    #: Of what failed; the same for failures of one cause on one way.
    stack: str = ""
    after_s: float = 0.0
    dead: bytes = b""


class RetryDecider:
    """Applies a subscription's retry policy. Thread-safe as far as ``rng`` is."""

    def __init__(self, policy: SubscriptionPolicy, *, consumer: str, handler: str, rng: random.Random) -> None:
        self._policy = policy
        self._consumer = consumer
        self._handler = storable(handler)
        self._rng = rng

    def decide(
        self, error: BaseException, number: int, history: tuple[Attempt, ...], *, begun_ms: int, duration_us: int
    ) -> RetryDecision:
        """Decide on attempt ``number``, which began at ``begun_ms`` and failed with ``error``."""
        error_class, said = class_of(error), words_of(error)
        attempt = Attempt(number, begun_ms, duration_us, self._consumer, text_of(error, ATTEMPT_ERROR_LIMIT))
        mark = fingerprint(self._policy.group, error_class, said)
        stack = stack_of(error, said=_cause_of)
        hopeless = isinstance(error, Unrecoverable | MalformedEnvelope)
        if not hopeless and number < self._policy.retry.max_attempts:
            return RetryDecision(Verdict.RETRY, attempt, mark, stack, self.pause_s(error, number))
        record = DeadRecord(
            cause=cause_of(error_class, said),
            error=_with_stack(error),
            fingerprint=mark,
            attempts=number,
            history=(*history, attempt),
            first_failed_ms=history[0].at_ms if history else begun_ms,
            died_ms=begun_ms + duration_us // 1000,
            topic=self._policy.topic,
            group=self._policy.group,
            consumer=self._consumer,
            handler=self._handler,
            unrecoverable=hopeless,
        )
        return RetryDecision(Verdict.DEAD, attempt, mark, stack, dead=encode(record))

    def pause_s(self, error: BaseException, number: int) -> float:
        """Seconds from the failure of attempt ``number`` to the next."""
        if isinstance(error, RetryLater):
            return min(max(0.0, error.seconds), LONGEST_RETRY_S)
        tiers = self._policy.retry.backoff_s
        return tiers[min(number, len(tiers)) - 1] * jitter(self._rng)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(prepared(DeadRecord))


def encode(record: DeadRecord) -> bytes:
    """The stored form."""
    return _encoder.encode(record)


def decode(body: bytes) -> DeadRecord:
    """Raises ``msgspec.DecodeError`` when ``body`` is no record."""
    return _decoder.decode(body)


def legible(body: bytes) -> DeadRecord:
    """As :func:`decode`; a record that says so where ``body`` is none: what lies in a store may be anybody's."""
    try:
        record = decode(body)
        # What has no date could not be shown either.
        to_datetime(record.first_failed_ms), to_datetime(record.died_ms)
        return record
    except (msgspec.DecodeError, ValueError, OverflowError, OSError, RecursionError) as error:
        cause = "its record cannot be read"
        return DeadRecord(
            cause=cause, error=f"{cause}: {words_of(error)}", fingerprint="", attempts=0, history=(), first_failed_ms=0,
            died_ms=0, topic="", group="", consumer="", handler="",
        )  # fmt: skip


def normalise(message: str) -> str:
    """``message`` on one line without quoted text, ids and numbers, which differ between cases of one cause."""
    text = message[:LOOKED_AT]
    for pattern, mark in VARIES:
        text = pattern.sub(mark, text)
    return SPACE.sub(" ", text).strip()[:CAUSE_LIMIT]


def cause_of(error_class: str, message: str) -> str:
    """What the operator reads as the cause of a group of dead letters."""
    said = normalise(message)
    return f"{error_class}: {said}" if said else error_class


def fingerprint(group: str, error_class: str, message: str) -> str:
    """16 hex digits, the same for failures of one cause in one subscription."""
    text = "\x00".join((group, error_class, normalise(message)))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _cause_of(error: BaseException) -> str:
    return cause_of(class_of(error), words_of(error))


def _with_stack(error: BaseException) -> str:
    text = text_of(error, ERROR_LIMIT // 2)
    stack = stack_of(error, ERROR_LIMIT - len(text) - 1, lambda each: text_of(each, ATTEMPT_ERROR_LIMIT))
    return f"{text}\n{stack}".strip()
