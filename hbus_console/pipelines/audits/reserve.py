"""What of an audit is told to who may not reveal what a topic masks: whether two payloads are the same is not.

Whoever may publish could guess a masked value otherwise, store the guess under an id that is taken, and be told by the
audit whether it was right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from engine.core.verdicts import Severity
from engine.pipeline.audit.findings import FORMS, Finding, FindingKind
from engine.pipeline.audit.report import TopicAudit
from hbus_console.access.permissions import Actor
from hbus_console.messages.sizes import tells_sizes
from hbus_console.pipelines.audits.summary import FindingTally, TopicSummary
from hbus_console.pipelines.models import AuditedTopic
from hbus_console.topics.models import Topic

#: Told as one, under the name of :attr:`FindingKind.REPEATED`.
_APART = (FindingKind.DUPLICATE, FindingKind.CONFLICTING)
#: So many messages a finding names.
_SAMPLES = 5


def reserved_topics(who: Actor, rows: Sequence[AuditedTopic]) -> frozenset[str]:
    """Those of which ``who`` is told so: they mask something by now, or what was audited is older than they are."""
    there = Topic.objects.in_bulk([row.topic for row in rows], field_name="name")
    return frozenset(row.topic for row in rows if not tells_sizes(who, row.topic, there.get(row.topic), row.from_ms))


def tells_apart(found: Iterable[FindingTally]) -> bool:
    """Whether any of it says that payloads are the same, or are not."""
    return any(each.kind in _APART for each in found)


def reserved_report(report: TopicAudit) -> TopicAudit:
    """The report with what may be told of it."""
    apart = [each for each in report.findings if each.kind in _APART]
    if not apart:
        return report
    samples = sorted((sample for each in apart for sample in each.samples), key=lambda it: (it.at_ms, it.id))
    count = sum(each.count for each in apart)
    says = FORMS[FindingKind.REPEATED].says(count)
    told = Finding(FindingKind.REPEATED, Severity.WRONG, count, says, samples=samples[:_SAMPLES])
    rest = [each for each in report.findings if each.kind not in _APART]
    return msgspec.structs.replace(report, findings=[told, *rest])


def reserved_summary(summary: TopicSummary) -> TopicSummary:
    """Likewise."""
    count = sum(each.count for each in summary.found if each.kind in _APART)
    if not count:
        return summary
    told = FindingTally(FindingKind.REPEATED, Severity.WRONG, count)
    return msgspec.structs.replace(summary, found=[told, *(it for it in summary.found if it.kind not in _APART)])
