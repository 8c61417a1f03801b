"""Two audits beside each other: what was found in one and not, or not as often, in the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.verdicts import AuditVerdict, Severity
from engine.pipeline.audit.checks import CHECKS, Check
from engine.pipeline.audit.findings import FindingKind
from hbus_console.pipelines.audits.reading import VERDICTS, SeenAudit, said


@dataclass(frozen=True, slots=True)
class CheckDifference:
    """Of one kind of finding over the topics of both."""

    check: Check
    #: What it is, with the larger of both counts.
    says: str
    before: int
    after: int

    @property
    def more(self) -> int:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """Of one topic; without a verdict it is in the other audit only."""

    topic: str
    before: AuditVerdict | None
    after: AuditVerdict | None
    archived_before: int
    archived_after: int

    @property
    def tones(self) -> tuple[str, str]:
        return _tone(self.before), _tone(self.after)

    @property
    def said(self) -> tuple[str, str]:
        return _said(self.before), _said(self.after)


@dataclass(frozen=True, slots=True)
class Comparison:
    checks: Sequence[CheckDifference]
    #: Those whose verdict differs first.
    topics: Sequence[TopicDifference]

    @property
    def differing(self) -> int:
        """How many topics have another verdict."""
        return sum(each.before is not each.after for each in self.topics)


def compare(before: SeenAudit, after: SeenAudit) -> Comparison:
    """Over the topics that whoever looks may see of either."""
    counted = _counted(before), _counted(after)
    checks = [
        CheckDifference(check, said(kind, severity, max(counts)), *counts)
        for check in CHECKS
        for kind in check.kinds
        for severity in Severity
        if any(counts := (counted[0][kind, severity], counted[1][kind, severity]))
    ]
    rows = {row.topic: row for row in before.rows}, {row.topic: row for row in after.rows}
    topics = []
    for name in sorted({*rows[0], *rows[1]}):
        was, now = rows[0].get(name), rows[1].get(name)
        topics.append(
            TopicDifference(
                name,
                AuditVerdict(was.verdict) if was else None,
                AuditVerdict(now.verdict) if now else None,
                was.archived if was else 0,
                now.archived if now else 0,
            )
        )
    return Comparison(checks, sorted(topics, key=lambda each: (each.before is each.after, each.topic)))


def _counted(audit: SeenAudit) -> Counter[tuple[FindingKind, Severity]]:
    found: Counter[tuple[FindingKind, Severity]] = Counter()
    for summary in audit.summaries.values():
        for tally in summary.found:
            found[tally.kind, tally.severity] += tally.count
    return found


def _tone(verdict: AuditVerdict | None) -> str:
    return VERDICTS[verdict][1] if verdict else ""


def _said(verdict: AuditVerdict | None) -> str:
    return VERDICTS[verdict][0] if verdict else "not audited"
