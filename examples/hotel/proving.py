"""The proof: all that the hotels' topics held is archived, and an audit compares it with what was published and
handled, message by message."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import msgspec

from engine.core.verdicts import AuditVerdict
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.audit.findings import FindingKind
from engine.pipeline.audit.report import Report
from examples.hotel.events import TOPICS
from hbus_console.access.permissions import Actor
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.auditing import run_audit
from hbus_console.pipelines.audits.at_once import audit_at_once
from hbus_console.pipelines.rolling import roll_up
from hbus_console.pipelines.services import archive_topic, is_archivable
from hbus_console.topics.models import Topic

_REASON = "The hotel example"
#: Seconds until all must be archived and told of.
PATIENCE_S = 60.0
#: Between two looks.
LOOK_S = 1.0


class Proof(msgspec.Struct):
    """What the audit says, of so many topics as could be ``judged``. ``published`` and ``archived`` are messages;
    ``retried`` and ``interrupted`` attempts after which there was another: they failed, or whoever made them was
    killed."""

    audit: int
    verdict: str
    topics: int
    judged: int
    published: int
    archived: int
    retried: int
    interrupted: int
    dead: int
    #: What is wrong, and what is not there and explained, each as a sentence.
    says: list[str]
    took_s: float

    @property
    def clean(self) -> bool:
        return self.verdict == AuditVerdict.CLEAN and self.published == self.archived

    @property
    def holds(self) -> bool:
        """Nothing is wrong. Of what a killed process did not tell the keeper finds out minutes later: until then it is
        open."""
        return self.clean or self.verdict == AuditVerdict.OPEN


def begin(actor: Actor) -> list[str]:
    """Have the topics of the example archived, those that can be; their names. Done twice it changes nothing."""
    rows = [topic for topic in Topic.objects.filter(name__in=TOPICS).order_by("name") if is_archivable(topic)]
    for topic in rows:
        archive_topic(actor, topic.name, _REASON)
    return [topic.name for topic in rows]


def prove(actor: Actor, names: list[str], stop: threading.Event) -> Proof:
    """Archive what they still hold, and audit it once all of it is told of. Raises what these two raise."""
    begun = time.monotonic()
    while not stop.is_set():
        run_archive(wanted_topics(names), in_this_process)
        if run_audit(names).verdict is not AuditVerdict.OPEN or time.monotonic() - begun > PATIENCE_S:
            break
        stop.wait(LOOK_S)
    kept = audit_at_once(actor, names, reason=_REASON)
    # The job does it every five minutes; whoever has waited so long for the demo looks at its charts now.
    roll_up(names)
    return _proof(kept.row.pk, kept.report, time.monotonic() - begun)


def _proof(audit: int, report: Report, took_s: float) -> Proof:
    return Proof(
        audit=audit,
        verdict=report.verdict.value,
        topics=len(report.topics),
        judged=sum(topic.is_judged for topic in report.topics),
        published=sum(topic.published.messages for topic in report.topics if topic.published),
        archived=sum(topic.archived.messages for topic in report.topics),
        retried=_count(report, FindingKind.RETRIED),
        interrupted=_count(report, FindingKind.INTERRUPTED),
        dead=_count(report, FindingKind.DEAD),
        says=list(_odd(report)),
        took_s=round(took_s, 3),
    )


def _count(report: Report, kind: FindingKind) -> int:
    return sum(found.count for topic in report.topics for found in topic.findings if found.kind is kind)


def _odd(report: Report) -> Iterator[str]:
    for topic in report.topics:
        for found in topic.findings:
            if found.severity != "notice":
                yield f"{topic.topic}: {found.severity}: {found.says}"
