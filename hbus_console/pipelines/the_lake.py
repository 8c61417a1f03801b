"""The lake as it is known here: one that is gone is not taken for one that nothing was put into so far."""

from __future__ import annotations

from django.db import transaction

from engine.core.subject import Subject
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import Lake
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.pipelines.feature import ARCHIVE_KEEP, JOB
from hbus_console.pipelines.models import ArchivedTopic, LakeBegun
from hbus_console.wiring.lake import lake as wired_lake


def lake() -> Lake:
    """Raises :class:`LakeDamaged` where there was one, and its folder has none any more."""
    found = wired_lake()
    if not found.is_begun() and LakeBegun.objects.exists():
        raise LakeDamaged(
            "The lake is gone: its folder has nothing of what was archived before.",
            remedy="Mount the folder of HBUS_LAKE (STATE/lake unless set), or restore it from a copy. If it is gone for"
            " good: `manage.py archive anew --reason …`.",
        )
    return found


def remember_lake() -> None:
    """That something was put into it."""
    if wired_lake().is_begun() and not LakeBegun.objects.exists():
        LakeBegun.objects.get_or_create(pk=1)


@transaction.atomic
def begin_anew(actor: Actor, reason: str) -> None:
    """Archive into an empty folder although there was a lake: all that topics hold is put into it again, and what only
    the former one had is gone, its rules and holds as well. Raises ``Forbidden`` and ``BadInput``."""
    require(actor, ARCHIVE_KEEP)
    reason = checks.reason(reason)
    LakeBegun.objects.all().delete()
    # What was archived and not rolled up by then is in no series, and never will be.
    ArchivedTopic.objects.update(archived_upto_ms=0)
    record(actor, "archive.anew", Subject("job", JOB), reason=reason)
