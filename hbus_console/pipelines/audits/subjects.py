"""What an audit says beside topics, as one person sees it: of jobs and policies that they may see, and of no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from engine.core.subject import Subject
from engine.core.verdicts import WORST_FIRST, AuditVerdict, Severity
from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.pipelines.audits.judged import audit_checks
from hbus_console.pipelines.audits.keeping import unpacked_findings
from hbus_console.pipelines.audits.verdict_words import ICONS, TONES, WORST, WithVerdict
from hbus_console.pipelines.models import AuditedSubject, BusAudit
from hbus_console.registry.judging import AuditCheck, JudgedFinding, JudgedSubject


@dataclass(frozen=True, slots=True)
class SeenSubject(WithVerdict):
    """One of them."""

    check: AuditCheck
    subject: Subject
    verdict: AuditVerdict
    from_ms: int
    to_ms: int
    judged: int
    findings: Sequence[JudgedFinding]

    @property
    def named(self) -> str:
        """As sentences call it."""
        return self.subject.name or self.subject.namespace


@dataclass(frozen=True, slots=True)
class SubjectAnswer:
    """What one check found, over all of its subjects."""

    check: AuditCheck
    says: Sequence[str]
    count: int
    tone: str
    #: Of how many something was found, of how many there are, and how much of them was looked at.
    found_of: int
    subjects: int
    judged: int

    @property
    def counted(self) -> str:
        """``3 jobs``."""
        return self.check.counted(self.subjects)

    @property
    def icon(self) -> tuple[str, str]:
        """Its name, and what it says."""
        return ICONS[self.tone]


def known_q() -> Q:
    """The filter that leaves what is of checks that are declared by now: of others nobody knows the words."""
    return Q(check_name__in=list(audit_checks()))


def seen_q(who: Actor) -> Q:
    """Likewise, and that ``who`` may see."""
    return known_q() & namespace_q(who, "scope")


def seen_subjects(who: Actor, audit: BusAudit) -> list[SeenSubject]:
    """Of every check, the worst first."""
    return _read(audit.subjects.filter(seen_q(who)))


def seen(check: AuditCheck, its: JudgedSubject) -> SeenSubject:
    """One that was judged just now, to who may see all."""
    return SeenSubject(check, its.subject, its.verdict, its.from_ms, its.to_ms, its.judged, its.findings)


def _read(rows: QuerySet[AuditedSubject]) -> list[SeenSubject]:
    checks, order = audit_checks(), {verdict: place for place, verdict in enumerate(WORST_FIRST)}
    found = [
        SeenSubject(
            checks[row.check_name],
            row.subject,
            AuditVerdict(row.verdict),
            row.from_ms,
            row.to_ms,
            row.judged,
            unpacked_findings(row.findings),
        )
        for row in rows
    ]
    return sorted(found, key=lambda it: (order[it.verdict], not it.findings, it.check.name, it.subject))


def answers_of(subjects: Iterable[SeenSubject]) -> list[SubjectAnswer]:
    """Of every check that has any of them."""
    of_check: dict[AuditCheck, list[SeenSubject]] = {check: [] for check in audit_checks().values()}
    for each in subjects:
        of_check[each.check].append(each)
    return [_answer(check, its) for check, its in of_check.items() if its]


def counted_findings(subjects: Iterable[SeenSubject]) -> Counter[tuple[str, Severity]]:
    """How many there are of each kind and severity."""
    counts: Counter[tuple[str, Severity]] = Counter()
    for each in subjects:
        for finding in each.findings:
            counts[finding.kind, finding.severity] += finding.count
    return counts


def _answer(check: AuditCheck, subjects: Sequence[SeenSubject]) -> SubjectAnswer:
    counts, kinds = counted_findings(subjects), list(check.forms)
    judged, found_of = sum(each.judged for each in subjects), sum(bool(each.findings) for each in subjects)
    if not counts:
        holds = check.clean.format(count=f"{judged:,}", subjects=check.counted(len(subjects)))
        says, tone = ([holds], "ok") if judged else ([check.nothing], "muted")
        return SubjectAnswer(check, says, 0, tone, 0, len(subjects), judged)
    ordered = sorted(counts, key=lambda of: (WORST.index(of[1]), kinds.index(of[0])))
    worst = ordered[0][1]
    count = sum(number for (_, severity), number in counts.items() if severity is worst)
    says = [check.forms[kind].says(counts[kind, severity]) for kind, severity in ordered]
    return SubjectAnswer(check, says, count, TONES[worst], found_of, len(subjects), judged)
