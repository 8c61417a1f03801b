"""What the newest audits say, for the pages of what they looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from engine.core.verdicts import AuditVerdict
from engine.pipeline.audit.findings import FindingKind, Lying
from hbus_console.access.permissions import Actor
from hbus_console.pipelines.audits.keeping import unpacked
from hbus_console.pipelines.audits.reserve import reserved_report, reserved_topics
from hbus_console.pipelines.audits.summary import read_summary
from hbus_console.pipelines.audits.verdict_words import VERDICTS
from hbus_console.pipelines.models import AuditedTopic

_AGAIN = (FindingKind.DUPLICATE, FindingKind.CONFLICTING, FindingKind.REPEATED)


@dataclass(frozen=True, slots=True)
class AuditOfTopic:
    """The newest audit that has a topic, and what it says of it."""

    audit: int
    at: datetime
    says: str
    tone: str


@dataclass(frozen=True, slots=True)
class StoredAgain:
    """That a message lies in its topic more than once."""

    #: Which audit found it.
    audit: int
    #: In the order of storing.
    places: Sequence[Lying]
    #: Whether there may be more: an audit names a few of what it found.
    at_least: bool
    #: Whether another payload lies under its id, as far as that may be told.
    conflicting: bool


def newest_audit(topic: str) -> AuditOfTopic | None:
    """``None``: none has it. The caller has asked whether the topic may be seen."""
    rows = AuditedTopic.objects.filter(topic=topic).order_by("-audit_id")
    found = rows.values_list("audit_id", "audit__at", "verdict").first()
    return AuditOfTopic(found[0], found[1], *VERDICTS[AuditVerdict(found[2])]) if found is not None else None


def stored_again(who: Actor, topic: str, message_id: str, source: str, at_ms: int) -> StoredAgain | None:
    """What the newest audit that looked at the moment ``at_ms`` of the topic names of it; ``None``: nothing. The caller
    has asked whether ``who`` may see the topic."""
    looked = AuditedTopic.objects.filter(topic=topic, from_ms__lte=at_ms, to_ms__gt=at_ms).order_by("-audit_id")
    row = looked.defer("report").first()
    if row is None or not any(each.kind in _AGAIN for each in read_summary(row.summary).found):
        return None
    places: dict[Lying, None] = {}
    at_least, conflicting = False, False
    report = unpacked(row.report)
    if reserved_topics(who, [row]):
        report = reserved_report(report)
    for finding in report.findings:
        if finding.kind not in _AGAIN:
            continue
        own = [each for each in finding.samples if (each.id, each.source) == (message_id, source)]
        places |= {place: None for each in own for place in each.places}
        at_least |= finding.count > len(finding.samples)
        conflicting |= finding.kind is FindingKind.CONFLICTING and bool(own)
    if len(places) < 2:
        return None
    return StoredAgain(row.audit_id, sorted(places, key=lambda place: place.stored_ms), at_least, conflicting)
