"""What the newest audits say is wrong: one row for each topic, and for each thing beside topics, of which something is
wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TypeVar

from django.db.models import Exists, OuterRef, Q, QuerySet

from engine.core.verdicts import AuditVerdict, Severity
from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.pipelines.audits.judged import audit_checks
from hbus_console.pipelines.audits.keeping import unpacked_findings
from hbus_console.pipelines.audits.subjects import known_q, seen_q
from hbus_console.pipelines.audits.summary import read_summary
from hbus_console.pipelines.models import AuditedSubject, AuditedTopic

#: How long what is wrong is told of, unless a newer audit says otherwise: two nights.
TOLD_S = 48 * 3_600
#: Verdicts of an audit that holds.
_HOLDS = (AuditVerdict.CLEAN.value, AuditVerdict.EXPLAINED.value)
#: A newer audit looked at as much.
_AS_MUCH = Q(from_ms__lte=OuterRef("from_ms"), to_ms__gte=OuterRef("to_ms"))
#: Or at all that is kept: what it is judged by is let go of meanwhile.
_ALL_KEPT = Q(audit__from_ms=None, to_ms__gte=OuterRef("to_ms"))
Row = TypeVar("Row", AuditedTopic, AuditedSubject)


def wrong_topics(now_ms: int) -> QuerySet[AuditedTopic]:
    """One row each, by name. What is wrong stays so until a newer audit of as much of the topic holds: one that looked
    at another time, or came too early to judge, says nothing of it."""
    newer = AuditedTopic.objects.filter(topic=OuterRef("topic"), audit__gt=OuterRef("audit"))
    return _still_wrong(AuditedTopic.objects.defer("report"), newer, _AS_MUCH, now_ms).order_by("topic")


def wrong_subjects(now_ms: int) -> QuerySet[AuditedSubject]:
    """Likewise of what is judged beside topics, one row for each check and subject."""
    newer = AuditedSubject.objects.filter(
        check_name=OuterRef("check_name"), about=OuterRef("about"), audit__gt=OuterRef("audit")
    )
    known = AuditedSubject.objects.filter(known_q())
    return _still_wrong(known, newer, _AS_MUCH | _ALL_KEPT, now_ms).order_by("check_name", "about")


def _still_wrong(rows: QuerySet[Row], newer: QuerySet[Row], as_much: Q, now_ms: int) -> QuerySet[Row]:
    since = datetime.fromtimestamp(now_ms / 1000, tz=UTC) - timedelta(seconds=TOLD_S)
    wrong = AuditVerdict.WRONG.value
    holds = newer.filter(as_much, verdict__in=_HOLDS)
    return rows.filter(~Exists(holds), ~Exists(newer.filter(verdict=wrong)), verdict=wrong, audit__at__gte=since)


def wrong_count(row: AuditedTopic | AuditedSubject) -> int:
    """Of all that is wrong with it."""
    found = read_summary(row.summary).found if isinstance(row, AuditedTopic) else unpacked_findings(row.findings)
    return sum(each.count for each in found if each.severity is Severity.WRONG)


class WrongNow:
    """What is wrong now of what one person may see, for the head of a list."""

    def __init__(self, who: Actor, now_ms: int) -> None:
        self.topics = list(wrong_topics(now_ms).filter(namespace_q(who, "topic")))
        #: Jobs, policies and the like.
        self.subjects = list(wrong_subjects(now_ms).filter(seen_q(who)).defer("findings"))

    @property
    def rows(self) -> list[AuditedTopic | AuditedSubject]:
        """Topics first."""
        return list(chain(self.topics, self.subjects))

    @property
    def says(self) -> str:
        """``something is wrong with 2 topics and 1 job``; empty: with nothing."""
        topics = len(self.topics)
        counts = [f"{topics:,} topic{'' if topics == 1 else 's'}"] if topics else []
        for name, check in audit_checks().items():
            if of_it := sum(row.check_name == name for row in self.subjects):
                counts.append(check.counted(of_it))
        if not counts:
            return ""
        *first, last = counts
        return f"something is wrong with {' and '.join(filter(None, [', '.join(first), last]))}"
