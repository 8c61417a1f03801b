"""How long the lake keeps a topic, and legal holds: endpoint, page and command go through here."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from django.db import transaction

from engine.bus.subjects import topic_subject
from engine.core.errors import NotThere
from engine.pipeline.lake.retention import LONGEST_DAYS, set_rules
from engine.pipeline.lake.state import TopicRules
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.pipelines.feature import ARCHIVE_KEEP
from hbus_console.pipelines.the_lake import lake
from hbus_console.topics.models import Topic

#: The longest text that says why a hold is on a topic.
LONGEST_HOLD = 200


def rules_of(topic: str) -> TopicRules:
    """What may go of it. Raises ``LakeDamaged``."""
    return lake().state().held(topic).rules


def keep(actor: Actor, topic: str, changes: Mapping[str, object], reason: str) -> TopicRules:
    """Say how many days of ``topic`` the lake keeps (``keep_days``; ``None``: all), and why a legal hold is on it
    (``hold``; empty: none is). What is not named stays as it is.

    Days that are older go with the next run of the archive, for good. Raises ``Forbidden``, :class:`NotThere`,
    :class:`BadInput` naming the field, and ``LakeDamaged``.
    """
    require(actor, ARCHIVE_KEEP, topic)
    insist_on(topic)
    reason = checks.reason(reason)
    wanted = dict(changes)
    if wanted.get("keep_days") is not None:
        wanted["keep_days"] = checks.whole(wanted["keep_days"], "keep_days", least=1, most=LONGEST_DAYS, unit="days")
    if "hold" in wanted:
        wanted["hold"] = checks.text(wanted["hold"], "hold", most=LONGEST_HOLD)
    # The log of the lake names who and why in any case, also where the audit log does not take its entry.
    with transaction.atomic():
        before, after = set_rules(
            lake(), topic, lambda rules: msgspec.structs.replace(rules, **wanted), by=actor.name, reason=reason
        )
        if before == after:
            already(topic_subject(topic), "is kept like that", reason=reason)
        else:
            told = {"before": msgspec.to_builtins(before), "after": msgspec.to_builtins(after)}
            record(actor, "archive.keep", topic_subject(topic), reason=reason, **told)
    return after


def insist_on(topic: str) -> None:
    """Of a topic that was deleted the lake may have something all the same."""
    if topic not in lake().state().topics and not Topic.objects.filter(name=topic).exists():
        raise NotThere(
            f"There is no topic {topic!r}, and the lake has nothing of one.",
            remedy="The page Archive and `manage.py archive status` tell which there are.",
            field="topic",
        )
