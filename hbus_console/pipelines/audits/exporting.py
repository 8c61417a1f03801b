"""An audit on its way out: as CSV, as a page that stands alone, and as JSON that is signed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from django.conf import settings

from engine.core.clock import to_rfc3339
from engine.pipeline.audit.checks import CHECK_OF
from engine.pipeline.audit.findings import Finding
from engine.pipeline.audit.report import TopicAudit
from hbus_console.access.permissions import Actor
from hbus_console.csv_text import csv_line
from hbus_console.messages.sizes import tells_sizes
from hbus_console.pipelines.audits.reading import SeenAudit, seen_as, sees_whole
from hbus_console.pipelines.audits.signing import public_key, signed
from hbus_console.pipelines.audits.subjects import SeenSubject
from hbus_console.topics.models import Topic
from hbus_console.ui.formats import epoch_ms

_COLUMNS = (
    *("topic", "owner", "verdict", "from", "to", "published", "archived"),
    *("check", "finding", "severity", "count", "subscription", "says", "why", "samples"),
    # Of what is no topic, and how much of it was looked at.
    *("subject", "judged"),
)
#: What :class:`~engine.pipeline.audit.report.Amount` is told of, in the whole and in each window.
_AMOUNTS = ("published", "archived", "replayed")


def as_json(audit: SeenAudit, who: Actor) -> bytes:
    """The audit of what is in it, signed by this installation."""
    return msgspec.json.encode(signed(msgspec.json.encode(content(audit, who))))


def content(audit: SeenAudit, who: Actor) -> dict[str, Any]:
    """All that is known of it and may be told to ``who``: ``bytes`` of a topic that masks what they may not reveal are
    null, for a window of one message would tell what that is. For who sees a part of it, it says so, and what
    is counted over all of them is null."""
    it, whole = audit.audit, sees_whole(audit)
    topics = Topic.objects.in_bulk([row.topic for row in audit.rows], field_name="name")
    return {
        "form": "hbus audit 1",
        "environment": settings.ENVIRONMENT_NAME,
        "public_key": public_key(),
        "audit": it.pk,
        "at": to_rfc3339(epoch_ms(it.at)),
        "asked_by": it.asked_by,
        "lake_version": it.version,
        "files": it.files if whole else None,
        "computed": it.computed if whole else None,
        "of": seen_as(who, whole),
        "verdict": audit.verdict,
        "topics": [
            {"owner": row.owner, **_content_of(topic, who, topics.get(topic.topic))} for row, topic in audit.reports()
        ],
        "judged": [judgement_content(each) for each in audit.subjects],
    }


def judgement_content(its: SeenSubject) -> dict[str, Any]:
    """What is said of one thing that is no topic."""
    return {
        "check": its.check.name,
        "subject": str(its.subject),
        "verdict": its.verdict,
        "from_ms": its.from_ms,
        "to_ms": its.to_ms,
        "judged": its.judged,
        "findings": [
            {
                "kind": each.kind,
                "severity": each.severity,
                "count": each.count,
                "says": each.says,
                "why": each.why,
                "samples": [
                    {"says": sample.says, "at_ms": sample.at_ms, "subject": str(sample.subject)}
                    for sample in each.samples
                ],
            }
            for each in its.findings
        ],
    }


def _content_of(topic: TopicAudit, who: Actor, there: Topic | None) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(topic)
    first_ms = min((window.from_ms for window in topic.windows), default=topic.from_ms)
    if not tells_sizes(who, topic.topic, there, first_ms):
        for place in (told, *told["windows"]):
            for name in _AMOUNTS:
                if place[name] is not None:
                    place[name]["bytes"] = None
    return told


def as_csv(audit: SeenAudit) -> Iterator[str]:
    """A line for each finding, and one for each topic, job or the like without any."""
    yield csv_line(_COLUMNS)
    for row, topic in audit.reports():
        # What is not judged yet is not none.
        archived = topic.archived.messages if topic.is_judged else ""
        published = topic.published.messages if topic.published is not None and topic.is_judged else ""
        about = (
            *(row.topic, row.owner, topic.verdict.value, to_rfc3339(topic.from_ms), to_rfc3339(topic.to_ms)),
            *(published, archived),
        )
        for finding in topic.findings:
            yield _line(about, _told(finding))
        if not topic.findings:
            yield _line(about)
    for each in audit.subjects:
        of_it = ("", "", each.verdict.value, to_rfc3339(each.from_ms), to_rfc3339(each.to_ms), "", "")
        named = (str(each.subject), each.judged)
        for said in each.findings:
            samples = " ".join(str(sample.subject) for sample in said.samples)
            told = (each.check.name, said.kind, said.severity.value, said.count, "", said.says, said.why, samples)
            yield _line(of_it, told, named)
        if not each.findings:
            yield _line(of_it, (each.check.name, *[""] * 7), named)


def _line(*parts: Sequence[object]) -> str:
    values = [value for part in parts for value in part]
    return csv_line([*values, *[""] * (len(_COLUMNS) - len(values))])


def _told(finding: Finding) -> tuple[object, ...]:
    return (
        *(CHECK_OF[finding.kind].name, finding.kind.value, finding.severity.value, finding.count),
        *(finding.subscription, finding.says, finding.why, " ".join(sample.named for sample in finding.samples)),
    )
