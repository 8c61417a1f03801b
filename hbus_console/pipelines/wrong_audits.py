"""What the newest audits say is wrong: one row for each topic of which something is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db.models import Exists, OuterRef, QuerySet

from engine.core.verdicts import AuditVerdict, Severity
from hbus_console.pipelines.audits.summary import read_summary
from hbus_console.pipelines.models import AuditedTopic

#: How long what is wrong is told of, unless a newer audit says otherwise: two nights.
TOLD_S = 48 * 3_600
#: Verdicts of an audit that holds.
_HOLDS = (AuditVerdict.CLEAN.value, AuditVerdict.EXPLAINED.value)


def wrong_topics(now_ms: int) -> QuerySet[AuditedTopic]:
    """One row each, by name. What is wrong stays so until a newer audit of as much of the topic holds: one that looked
    at another time, or came too early to judge, says nothing of it."""
    since = datetime.fromtimestamp(now_ms / 1000, tz=UTC) - timedelta(seconds=TOLD_S)
    newer = AuditedTopic.objects.filter(topic=OuterRef("topic"), audit__gt=OuterRef("audit"))
    holds = newer.filter(verdict__in=_HOLDS, from_ms__lte=OuterRef("from_ms"), to_ms__gte=OuterRef("to_ms"))
    wrong = AuditVerdict.WRONG.value
    rows = AuditedTopic.objects.filter(
        ~Exists(holds), ~Exists(newer.filter(verdict=wrong)), verdict=wrong, audit__at__gte=since
    )
    return rows.defer("report").order_by("topic")


def wrong_count(row: AuditedTopic) -> int:
    """Of all that is wrong with it."""
    return sum(each.count for each in read_summary(row.summary).found if each.severity is Severity.WRONG)
