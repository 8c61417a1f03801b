"""What the audit log shows of edited payloads: what their topic masks by now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbus_console.audit.models import AuditEntry
from hbus_console.audit.sides import Sides
from hbus_console.deadletters.editing import hidden
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules


def edits(entries: Sequence[AuditEntry]) -> list[Sides]:
    """Before and after of each, its payloads masked; what was masked when it was written is no longer there. A topic
    that was made since only has the name of the one they lay in: then they are hidden whole. One query."""
    topics = {topic.name: topic for topic in Topic.objects.filter(name__in={entry.namespace for entry in entries})}
    said = []
    for entry in entries:
        rules = MaskingRules.at(topics.get(entry.namespace), entry.at)
        said.append(Sides(_side(rules, entry.before), _side(rules, entry.after)))
    return said


def _side(rules: MaskingRules, side: Any) -> Any:
    return {**side, "payload": hidden(rules, side["payload"])} if isinstance(side, dict) and "payload" in side else side
