"""What an audit says: of each topic a verdict, its findings, and how much was where when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from engine.core.verdicts import AuditVerdict, worst_of
from engine.pipeline.audit.findings import Finding, Sample
from engine.pipeline.audit.percentiles import Percentiles


class Amount(msgspec.Struct, frozen=True, gc=False):
    messages: int
    bytes: int


class WindowOutcomes(msgspec.Struct, frozen=True, gc=False):
    """Of one subscription in one window."""

    #: Messages by the kind of their outcome: ``settled``, ``dead`` …
    outcomes: Mapping[str, int]
    #: Messages of closed windows that have none.
    open: int


class Window(msgspec.Struct, frozen=True, gc=False):
    """Messages that happened in a stretch of time."""

    from_ms: int
    #: Nothing more comes.
    closed: bool
    #: As the ledger tells; ``None`` where it is not in the lake.
    published: Amount | None
    archived: Amount
    #: Copies among these.
    replayed: Amount
    #: What part of what was published is archived, 0 to 1; ``None`` where nothing was published.
    complete: float | None
    subscriptions: Mapping[str, WindowOutcomes]


class SubscriptionAudit(msgspec.Struct, frozen=True, gc=False):
    """What one subscription did with the messages of the span."""

    name: str
    outcomes: Mapping[str, int]
    open: int
    #: What part of its messages has an outcome, 0 to 1; ``None`` where there is none.
    complete: float | None
    #: Rows of the ledger by kind, such as ``retried``: several of one message count each.
    told: Mapping[str, int]
    #: Handlers that ended, by the number of the attempt.
    attempts: Mapping[int, int]
    #: From being stored to being settled, milliseconds.
    settled_after: Percentiles


class TopicAudit(msgspec.Struct, frozen=True, gc=False):
    topic: str
    verdict: AuditVerdict
    #: The span: from the first moment to below the second, epoch milliseconds.
    from_ms: int
    to_ms: int
    #: What was stored before it is judged, epoch milliseconds.
    closed_ms: int
    window_ms: int
    published: Amount | None
    archived: Amount
    replayed: Amount
    complete: float | None
    #: From being stored to being in the lake, milliseconds.
    archived_after: Percentiles
    subscriptions: Sequence[SubscriptionAudit]
    #: Rows of the ledger that are of no subscription, by kind.
    told: Mapping[str, int]
    #: Those that are wrong first.
    findings: Sequence[Finding]
    #: Those without any message left out.
    windows: Sequence[Window]
    #: Of the messages of the span that are archived, how many a replay or a redrive has copied since, and by the topic
    #: that the copies lie in; what is copied twice counts once.
    copied: int = 0
    copied_into: Mapping[str, int] = {}
    #: The earliest of what was stored again, with whatever payload: for where nobody is to learn which of it has
    #: the same one. Empty in what was kept before there was such.
    repeated: Sequence[Sample] = ()
    #: When the first and the last was stored, epoch milliseconds, of the files that were looked at: also of what cannot
    #: be judged yet. 0: there was none, or it is not told.
    held_from_ms: int = 0
    held_until_ms: int = 0

    @property
    def is_judged(self) -> bool:
        """Whether it says anything."""
        published = self.published.messages if self.published else 0
        return self.verdict.says_anything(self.archived.messages + published)


class Report(msgspec.Struct, frozen=True, gc=False):
    #: The commit of the lake that was looked at.
    version: int
    topics: Sequence[TopicAudit]
    #: Files that were compared, and of how many of them the side had to be computed.
    files: int
    computed: int

    @property
    def verdict(self) -> AuditVerdict:
        """The worst."""
        return worst_of(topic.verdict for topic in self.topics)
