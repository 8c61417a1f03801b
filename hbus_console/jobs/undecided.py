"""Slots that nobody has decided when what they stood under ends: skipped, with a row that says so."""

from __future__ import annotations

import re
from datetime import datetime

from engine.core.clock import to_rfc3339
from engine.core.errors import HbusError
from engine.cron.slots.planning import due_after
from engine.cron.slots.steps import RunState
from hbus_console.jobs.columns import REASON_LIMIT
from hbus_console.jobs.known import cron_job
from hbus_console.jobs.models import Job, JobCursor, JobRun

#: Why they are skipped, where the job was not held anyway.
UNDECIDED = "the job was changed before anybody decided this slot"
_LEFT_OUT = ", nor those after it until {}, which have no row of their own"
_UNTIL = re.compile(re.escape(_LEFT_OUT).replace(r"\{\}", r"(\S+)"))


def tell_undecided(row: Job, now_s: float) -> None:
    """What came under the settings that end now, and nobody decided, is skipped with a row; it starts anew from now.

    Of very many the last row tells of those that have none, see :func:`told_until`.
    """
    cursor = JobCursor.objects.select_for_update().get(job=row.name)
    at, now_us = int(now_s), round(now_s * 1_000_000)
    slots, more, why = _undecided(row, cursor.at, at)
    told = _LEFT_OUT.format(to_rfc3339(at * 1000)) if more else ""
    JobRun.objects.bulk_create(
        (
            JobRun(
                job=row.name,
                version=row.version,
                slot=slot,
                state=RunState.SKIPPED,
                reason=why[: REASON_LIMIT - len(told)] + told if slot == slots[-1] else why[:REASON_LIMIT],
                decided_us=now_us,
                ended_us=now_us,
                changed_us=now_us,
            )
            for slot in slots
        ),
        ignore_conflicts=True,
    )
    cursor.at = max(cursor.at, at)
    cursor.save(update_fields=["at"])


def told_until(reason: str) -> int:
    """Up to which instant the row of a slot with this reason tells of the slots behind it too; 0: of none."""
    found = _UNTIL.search(reason)
    return int(datetime.fromisoformat(found[1]).timestamp()) if found else 0


def _undecided(row: Job, after: int, until: int) -> tuple[list[int], bool, str]:
    """The slots, whether there are more, and why they are skipped."""
    try:
        known = cron_job(row)
    except HbusError:
        # Nobody knows which: no node could have decided one.
        return [], False, ""
    slots = due_after(known, after, until)
    return slots, bool(slots and due_after(known, slots[-1], until)), known.held or UNDECIDED
