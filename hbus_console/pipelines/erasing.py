"""The erasure of a key from the lake. It reads files, and so brings what reads them: no page imports it."""

from __future__ import annotations

from django.db import transaction

from engine.bus.subjects import topic_subject
from engine.core.errors import BadInput
from engine.pipeline.lake.erasure import erase
from engine.pipeline.lake.state import Erased
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.pipelines.feature import ARCHIVE_ERASE
from hbus_console.pipelines.keeping import insist_on
from hbus_console.pipelines.the_lake import lake


def erase_key(actor: Actor, topic: str, key: str, reason: str) -> Erased:
    """Take all that bears the ordering key out of what the lake has of ``topic``; it takes a look at every file.

    Neither the audit log nor the lake tells the key, only its hash. Raises ``Forbidden``, ``NotThere``,
    :class:`BadInput`, ``LakeDamaged``, and ``UnderHold`` where a legal hold is on the topic.
    """
    require(actor, ARCHIVE_ERASE, topic)
    insist_on(topic)
    reason = checks.reason(reason)
    if key and key in reason:
        raise BadInput(
            "The reason names the key that is to be forgotten.", remedy="Say why without naming it.", field="reason"
        )
    erased = erase(lake(), topic, key, by=actor.name, reason=reason)
    told = {"key_hash": f"{erased.key_hash & (2**64 - 1):016x}", "rows": {str(k): n for k, n in erased.rows.items()}}
    with transaction.atomic():
        record(actor, "archive.erase", topic_subject(topic), reason=reason, after=told)
    return erased
