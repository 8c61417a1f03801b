"""What becomes of a failed attempt: another one, or death."""

from __future__ import annotations

import random
import traceback

import msgspec

from engine.bus import dead
from engine.bus.errors import MalformedEnvelope, RetryLater, Unrecoverable
from engine.bus.policy import SubscriptionPolicy
from engine.bus.transport import Attempt, Verdict

#: The longest error text of one attempt in the history, in characters.
ATTEMPT_ERROR_LIMIT = 500
#: How many frames of the traceback are kept, counted from where it was raised.
FRAMES = 6
#: The longest pause a handler may ask for, in seconds.
LONGEST_RETRY_S = 86_400.0


class RetryDecision(msgspec.Struct, frozen=True):
    """What to do with a failed attempt."""

    verdict: Verdict
    attempt: Attempt
    error: str
    fingerprint: str
    after_s: float = 0.0
    dead: bytes = b""


class RetryDecider:
    """Applies a subscription's retry policy. Thread-safe as far as ``rng`` is."""

    def __init__(self, policy: SubscriptionPolicy, *, consumer: str, handler: str, rng: random.Random) -> None:
        self._policy = policy
        self._consumer = consumer
        self._handler = handler
        self._rng = rng

    def decide(
        self, error: BaseException, number: int, history: tuple[Attempt, ...], *, begun_ms: int, duration_us: int
    ) -> RetryDecision:
        """Judge attempt ``number``, which began at ``begun_ms`` and failed with ``error``."""
        error_class, said = type(error).__name__, str(error)
        text = f"{error_class}: {said}" if said else error_class
        attempt = Attempt(number, begun_ms, duration_us, self._consumer, text[:ATTEMPT_ERROR_LIMIT])
        fingerprint = dead.fingerprint(self._policy.group, error_class, said)
        hopeless = isinstance(error, Unrecoverable | MalformedEnvelope)
        if not hopeless and number < self._policy.retry.max_attempts:
            return RetryDecision(
                Verdict.RETRY, attempt, attempt.error, fingerprint, after_s=self._pause_s(error, number)
            )
        record = dead.DeadRecord(
            cause=dead.cause_of(error_class, said),
            error=_with_traceback(text, error),
            fingerprint=fingerprint,
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
        return RetryDecision(Verdict.DEAD, attempt, attempt.error, fingerprint, dead=dead.encode(record))

    def _pause_s(self, error: BaseException, number: int) -> float:
        if isinstance(error, RetryLater):
            return min(max(0.0, error.seconds), LONGEST_RETRY_S)
        return self._policy.retry.delay_s(number, self._rng)


def _with_traceback(text: str, error: BaseException) -> str:
    where = "".join(traceback.format_tb(error.__traceback__, limit=-FRAMES))
    cause = error.__cause__
    because = f"\ncaused by {type(cause).__name__}: {cause}" if cause is not None else ""
    room = dead.ERROR_LIMIT - min(len(text), dead.ERROR_LIMIT // 2)
    return f"{text[: dead.ERROR_LIMIT // 2]}{because[:500]}\n{where[-room:]}".strip()
