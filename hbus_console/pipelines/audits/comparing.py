"""Two audits beside each other: what was found in one and not, or not as often, in the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.core.verdicts import AuditVerdict, Severity
from engine.pipeline.audit.checks import CHECKS
from engine.pipeline.audit.findings import FindingKind
from hbus_console.pipelines.audits.judged import audit_checks
from hbus_console.pipelines.audits.reading import SeenAudit, said
from hbus_console.pipelines.audits.subjects import counted_findings
from hbus_console.pipelines.audits.verdict_words import VERDICTS
from hbus_console.registry.judging import AuditCheck
from hbus_console.ui.formats import num


@dataclass(frozen=True, slots=True)
class CheckDifference:
    """Of one kind of finding over all of both."""

    title: str
    #: What it is, with the larger of both counts.
    says: str
    before: int
    after: int

    @property
    def more(self) -> int:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class SubjectDifference:
    """Of a job, a policy or the like; without a verdict it is in the other audit only."""

    check: AuditCheck
    named: str
    before: AuditVerdict | None
    after: AuditVerdict | None

    @property
    def tones(self) -> tuple[str, str]:
        return _tone(self.before), _tone(self.after)

    @property
    def said(self) -> tuple[str, str]:
        return _said(self.before), _said(self.after)


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """Of one topic; without a verdict it is in the other audit only."""

    topic: str
    before: AuditVerdict | None
    after: AuditVerdict | None
    #: ``None``: it was not judged, or not audited.
    archived_before: int | None
    archived_after: int | None

    @property
    def archived(self) -> tuple[str, str]:
        """How many, or why that is not known."""
        return _archived(self.before, self.archived_before), _archived(self.after, self.archived_after)

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
    #: Those whose verdict differs.
    subjects: Sequence[SubjectDifference]

    @property
    def differing(self) -> int:
        """How many topics have another verdict."""
        return sum(each.before is not each.after for each in self.topics)


def compare(before: SeenAudit, after: SeenAudit) -> Comparison:
    """Over what whoever looks may see of either."""
    counted = _counted(before), _counted(after)
    checks = [
        CheckDifference(check.title, said(kind, severity, max(counts)), *counts)
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
                was.archived if was and was.is_judged else None,
                now.archived if now and now.is_judged else None,
            )
        )
    ordered = sorted(topics, key=lambda each: (each.before is each.after, each.topic))
    return Comparison([*checks, *_beside(before, after)], ordered, _subjects(before, after))


def _beside(before: SeenAudit, after: SeenAudit) -> Iterator[CheckDifference]:
    for check in audit_checks().values():
        was, now = (
            counted_findings(each for each in audit.subjects if each.check is check) for audit in (before, after)
        )
        for kind, form in check.forms.items():
            for severity in Severity:
                counts = was[kind, severity], now[kind, severity]
                if any(counts):
                    yield CheckDifference(check.title, form.says(max(counts)), *counts)


def _subjects(before: SeenAudit, after: SeenAudit) -> list[SubjectDifference]:
    was, now = ({(each.check.name, str(each.subject)): each for each in audit.subjects} for audit in (before, after))
    found = []
    for which in sorted({*was, *now}):
        old, new = was.get(which), now.get(which)
        its = new or old
        verdicts = old.verdict if old else None, new.verdict if new else None
        if its is not None and verdicts[0] is not verdicts[1]:
            found.append(SubjectDifference(its.check, its.named, *verdicts))
    return found


def _counted(audit: SeenAudit) -> Counter[tuple[FindingKind, Severity]]:
    found: Counter[tuple[FindingKind, Severity]] = Counter()
    for summary in audit.summaries.values():
        for tally in summary.found:
            found[tally.kind, tally.severity] += tally.count
    return found


def _tone(verdict: AuditVerdict | None) -> str:
    return VERDICTS[verdict][1] if verdict else ""


def _archived(verdict: AuditVerdict | None, count: int | None) -> str:
    if count is not None:
        return num(count)
    return "not judged" if verdict else "not audited"


def _said(verdict: AuditVerdict | None) -> str:
    return VERDICTS[verdict][0] if verdict else "not audited"
