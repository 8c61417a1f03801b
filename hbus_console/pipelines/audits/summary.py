"""What lists and sums need of a topic's report, small enough to be read for every topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from engine.core.prepared import prepared
from engine.core.verdicts import Severity
from engine.pipeline.audit.findings import FindingKind
from engine.pipeline.audit.percentiles import Percentiles
from engine.pipeline.audit.report import TopicAudit


class FindingTally(msgspec.Struct, frozen=True, gc=False):
    """Of one finding: what it is and how many."""

    kind: FindingKind
    severity: Severity
    count: int


class SubscriptionReach(msgspec.Struct, frozen=True, gc=False):
    """How many messages of a subscription have an outcome, and how many of closed windows have none."""

    done: int
    open: int


class TopicSummary(msgspec.Struct, frozen=True, gc=False):
    found: Sequence[FindingTally]
    subscriptions: Mapping[str, SubscriptionReach]
    #: From being stored to being settled, in all subscriptions together, and to being in the lake; milliseconds.
    settled_after: Percentiles
    archived_after: Percentiles
    #: As :class:`~engine.pipeline.audit.report.TopicAudit` has it.
    copied: int = 0
    copied_into: Mapping[str, int] = {}


def summary_of(topic: TopicAudit, settled_after: Percentiles) -> dict[str, Any]:
    """As the database keeps it."""
    found = [FindingTally(each.kind, each.severity, each.count) for each in topic.findings]
    subscriptions = {
        each.name: SubscriptionReach(sum(each.outcomes.values()), each.open) for each in topic.subscriptions
    }
    kept: dict[str, Any] = msgspec.to_builtins(
        TopicSummary(found, subscriptions, settled_after, topic.archived_after, topic.copied, topic.copied_into),
        str_keys=True,
    )
    return kept


def read_summary(kept: dict[str, Any]) -> TopicSummary:
    """What :func:`summary_of` made."""
    return msgspec.convert(kept, prepared(TopicSummary), strict=False)
