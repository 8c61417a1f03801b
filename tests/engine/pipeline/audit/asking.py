"""Audits as the tests make them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from engine.pipeline.audit.auditing import Auditor, TopicKnown
from engine.pipeline.audit.findings import Finding, FindingKind
from engine.pipeline.audit.report import Report, TopicAudit
from tests.engine.pipeline.audit.planting import Found
from tests.engine.pipeline.audit.telling import SOURCE, TOPIC, Hotel


def known(hotel: Hotel, **more: Any) -> dict[str, TopicKnown]:
    """The archive has caught up, and one source may publish."""
    return {TOPIC: TopicKnown(complete_ms=hotel.clock.now_ms(), producers=[SOURCE], **more)}


def report(hotel: Hotel, *, samples: int = 5, **options: Any) -> Report:
    return Auditor(hotel.lake, samples=samples).run([TOPIC], known=known(hotel), **options)


def audit(hotel: Hotel, **options: Any) -> TopicAudit:
    (found,) = report(hotel, **options).topics
    return found


def counts(found: TopicAudit, why: str = "") -> Counter[Found]:
    """What is not explained, or is so by ``why``."""
    return Counter({(each.kind, each.subscription): each.count for each in found.findings if each.why == why})


def of_kind(found: TopicAudit, kind: FindingKind) -> Finding:
    (finding,) = [each for each in found.findings if each.kind is kind]
    return finding


def plain(found: Report) -> Any:
    """All that does not depend on how the rows lie in files."""
    said = msgspec.to_builtins(found)
    return {name: value for name, value in said.items() if name not in ("version", "files", "computed")}
