"""Reports in the database: one row for each topic, so that everybody reads of the topics that they may see."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from engine.core.prepared import prepared
from engine.pipeline.audit.percentiles import merged
from engine.pipeline.audit.report import Report, TopicAudit
from hbus_console.pipelines.audits.judged import JudgedByCheck
from hbus_console.pipelines.audits.summary import summary_of
from hbus_console.pipelines.models import AskedBusAudit, AuditedSubject, AuditedTopic, BusAudit
from hbus_console.registry.judging import JudgedFinding, JudgedSubject
from hbus_console.topics.models import Topic


@dataclass(frozen=True, slots=True)
class AskedAudit:
    """Who asked for what, and how long it took."""

    took_ms: int
    by: str = ""
    run: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None


@transaction.atomic
def keep_report(report: Report, asked: AskedAudit, findings: bytes, judged: Iterable[JudgedByCheck] = ()) -> BusAudit:
    """Write it down with what was ``judged`` beside it, ``findings`` as Parquet, and let go of those older than
    ``HBUS_AUDIT_DAYS``."""
    made = BusAudit.objects.create(
        at=timezone.now(),
        took_ms=asked.took_ms,
        asked_by=asked.by,
        run=asked.run,
        from_ms=asked.from_ms,
        to_ms=asked.to_ms,
        version=report.version,
        files=report.files,
        computed=report.computed,
        findings=findings,
    )
    owners = _owners(report)
    AuditedTopic.objects.bulk_create(
        (
            AuditedTopic(
                audit=made,
                topic=each.topic,
                owner=owners.get(each.topic, ""),
                verdict=each.verdict,
                from_ms=each.from_ms,
                to_ms=each.to_ms,
                published=each.published.messages if each.published else None,
                archived=each.archived.messages,
                replayed=each.replayed.messages,
                summary=summary_of(each, merged(of.settled_after for of in each.subscriptions)),
                report=packed(each),
            )
            for each in report.topics
        ),
        batch_size=200,
    )
    AuditedSubject.objects.bulk_create(
        (_row(made, by.check.name, each) for by in judged for each in by.judgements), batch_size=200
    )
    old = made.at - timedelta(days=settings.HBUS_AUDIT_DAYS)
    BusAudit.objects.filter(at__lt=old).delete()
    # One whose run waits that long is asked for again.
    AskedBusAudit.objects.filter(at__lt=old).delete()
    return made


def _row(audit: BusAudit, check: str, its: JudgedSubject) -> AuditedSubject:
    return AuditedSubject(
        audit=audit,
        check_name=check,
        about=str(its.subject),
        scope=its.scope,
        verdict=its.verdict,
        from_ms=its.from_ms,
        to_ms=its.to_ms,
        judged=its.judged,
        findings=zlib.compress(msgspec.json.encode(its.findings)) if its.findings else b"",
    )


def unpacked_findings(kept: bytes | memoryview) -> Sequence[JudgedFinding]:
    """What a row of a subject has."""
    found = bytes(kept)
    return msgspec.json.decode(zlib.decompress(found), type=prepared(list[JudgedFinding])) if found else []


def packed(topic: TopicAudit) -> bytes:
    """As a row keeps it."""
    return zlib.compress(msgspec.json.encode(topic))


def unpacked(kept: bytes | memoryview) -> TopicAudit:
    """What :func:`packed` made; a database gives it as any kind of bytes."""
    return msgspec.json.decode(zlib.decompress(bytes(kept)), type=prepared(TopicAudit))


def _owners(report: Report) -> Mapping[str, str]:
    names = [each.topic for each in report.topics]
    return dict(Topic.objects.filter(name__in=names, team__isnull=False).values_list("name", "team__name"))
