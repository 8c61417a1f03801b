"""What of an audit is told to who may not reveal what a topic masks by now, or masked when the audit was made.

Whether two payloads are the same is not: whoever may publish could guess a masked value otherwise, store the guess
under an id that is taken, and be told by the audit whether it was right. Nor is which payloads break a schema: it may
be by what is masked only since. Nor is where in it an envelope cannot be read, which tells how long what is before is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from engine.core.verdicts import Severity
from engine.pipeline.audit.findings import FORMS, Finding, FindingKind, Sample
from engine.pipeline.audit.report import TopicAudit
from hbus_console.access.permissions import Actor
from hbus_console.messages.sizes import tells_sizes
from hbus_console.pipelines.audits.summary import FindingTally, TopicSummary
from hbus_console.pipelines.models import AuditedTopic
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import NO_ENVELOPE

#: Told as one, under the name of :attr:`FindingKind.REPEATED`.
_APART = (FindingKind.DUPLICATE, FindingKind.CONFLICTING)
#: What else these say of payloads.
_OF_PAYLOADS = (*_APART, FindingKind.MALFORMED, FindingKind.UNFIT)


def reserved_topics(who: Actor, rows: Sequence[AuditedTopic]) -> frozenset[str]:
    """Those of which ``who`` is told so: they mask something by now, or what was audited is older than they are."""
    there = Topic.objects.in_bulk([row.topic for row in rows], field_name="name")
    return frozenset(row.topic for row in rows if not tells_sizes(who, row.topic, there.get(row.topic), row.from_ms))


def tells_of_payloads(found: Iterable[FindingTally]) -> bool:
    """Whether any of it says what is not for everybody."""
    return any(each.kind in _OF_PAYLOADS for each in found)


def reserved_report(report: TopicAudit) -> TopicAudit:
    """The report with what may be told of it."""
    told = [_reserved(each) for each in report.findings if each.kind not in _APART]
    apart = [each for each in report.findings if each.kind in _APART]
    if apart:
        told.insert(0, _together(apart, report.repeated))
    return msgspec.structs.replace(report, findings=told)


def _reserved(finding: Finding) -> Finding:
    if finding.kind is FindingKind.UNFIT:
        return msgspec.structs.replace(finding, samples=())
    if finding.kind is FindingKind.MALFORMED:
        samples = [msgspec.structs.replace(sample, note=NO_ENVELOPE) for sample in finding.samples]
        return msgspec.structs.replace(finding, samples=samples)
    return finding


def _together(apart: Sequence[Finding], samples: Sequence[Sample]) -> Finding:
    """Not with the samples of each: which of them there are hangs on which payloads are the same."""
    count = sum(each.count for each in apart)
    says = FORMS[FindingKind.REPEATED].says(count)
    return Finding(FindingKind.REPEATED, Severity.WRONG, count, says, samples=samples)


def reserved_summary(summary: TopicSummary) -> TopicSummary:
    """Likewise."""
    count = sum(each.count for each in summary.found if each.kind in _APART)
    if not count:
        return summary
    told = FindingTally(FindingKind.REPEATED, Severity.WRONG, count)
    return msgspec.structs.replace(summary, found=[told, *(it for it in summary.found if it.kind not in _APART)])
