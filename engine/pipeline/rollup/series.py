"""What a roll-up makes: rows of series. It brings nothing that reads files, so pages may know it."""

from __future__ import annotations

import msgspec

from engine.core.resolution import Resolution

#: Of a topic's own rows, where those of a subscription have its name.
WHOLE_TOPIC = ""


class SeriesCounts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What happened in one span, to one topic or in one of its subscriptions; what is ``None`` had nothing to measure.

    Messages count when they were stored, or published as the ledger tells; deliveries when they ended. So of a
    subscription ``stored``, ``bytes``, ``published`` and what is late are nothing, and of a topic ``settled`` and what
    follows are those of all its subscriptions together, with what happened in none.
    """

    stored: int = 0
    #: Of envelopes that were stored.
    bytes: int = 0
    published: int = 0
    settled: int = 0
    #: Attempts that failed and are made again.
    retried: int = 0
    dead: int = 0
    #: Of those that were settled, how many are known to have been published, and how long that was before,
    #: milliseconds; see :mod:`engine.pipeline.audit.histogram`.
    timed: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    longest_ms: float | None = None
    #: How long after it happened, by its producer, what was stored was; what is told without a time is not late.
    late_p50_ms: float | None = None
    late_p99_ms: float | None = None
    #: Stored so long before or after it happened that one of the clocks must be wrong; these are not among the late.
    skewed: int = 0


class SeriesRow(msgspec.Struct, frozen=True, gc=False):
    """One point of the series of one topic."""

    #: :data:`WHOLE_TOPIC` for that of the topic itself.
    subscription: str
    resolution: Resolution
    #: When it begins, seconds since the epoch.
    at: int
    counts: SeriesCounts
