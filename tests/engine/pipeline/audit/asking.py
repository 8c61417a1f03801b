"""Audits as the tests make them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from engine.pipeline.audit.auditing import Auditor, TopicKnown
from engine.pipeline.audit.findings import Finding, FindingKind
from engine.pipeline.audit.fitting import StoredPayload
from engine.pipeline.audit.report import Report, TopicAudit
from tests.engine.pipeline.audit.planting import Found
from tests.engine.pipeline.audit.telling import SOURCE, TOPIC, Hotel


@dataclass
class BookingRules:
    """A booking is named by a text. Counts what it is asked."""

    since_ms: int = 0
    name: str = "1"
    asked: list[StoredPayload] = field(default_factory=list)

    def digest(self, until_ms: int) -> str:
        return self.name if until_ms >= self.since_ms else ""

    def fault(self, payload: StoredPayload) -> str:
        self.asked.append(payload)
        booking = json.loads(payload.json or "{}").get("booking")
        return "" if isinstance(booking, str) else f"booking is of type {type(booking).__name__}"


def known(hotel: Hotel, **more: Any) -> dict[str, TopicKnown]:
    """The archive has caught up, one source may publish, and payloads are looked at."""
    told = {"complete_ms": hotel.clock.now_ms(), "producers": [SOURCE], "payloads": BookingRules(), **more}
    return {TOPIC: TopicKnown(**told)}


def report(hotel: Hotel, *, samples: int = 5, rules: BookingRules | None = None, **options: Any) -> Report:
    about = known(hotel, payloads=rules or BookingRules())
    return Auditor(hotel.lake, samples=samples).run([TOPIC], known=about, **options)


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
