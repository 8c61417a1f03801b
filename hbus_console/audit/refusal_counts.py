"""How many entries refusals make: who may only look could else fill the log by asking for what they may not do.

The first of a day have an entry each. What comes after is counted beside the log, and the count is told by an entry of
its act every hour: nothing is dropped. A person's tokens are that person.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor
from hbus_console.audit.models import AuditEntry, RefusalCount
from hbus_console.audit.plain import as_stored
from hbus_console.audit.services import record
from hbus_console.audit.subjects import INSTALLATION
from hbus_console.subjects import of_text

#: Refusals of one person that have an entry each, in :data:`DAY`.
MOST_A_DAY = 100
DAY = timedelta(days=1)
#: How long what was counted waits at most to be told.
TOLD_EVERY = timedelta(hours=1)
_AT_ONCE = 500


def record_or_count(
    actor: Actor,
    action: str,
    subject: Subject,
    after: Mapping[str, Any],
    *,
    by_subject: bool = False,
    clock: Clock | None = None,
) -> AuditEntry | None:
    """The entry that ``actor`` was refused ``action`` on ``subject``; ``None`` where it was counted instead.

    In a transaction of its own. ``by_subject``: nobody knows who asked, so that those of each subject are counted.
    """
    now = to_datetime((clock or SystemClock()).now_ms())
    with transaction.atomic():
        row = _row(actor, subject if by_subject else None, now)
        if row.entries < MOST_A_DAY:
            row.entries += 1
            row.save(update_fields=["since", "entries"])
            full = row.entries == MOST_A_DAY
            more = {"from_now_on": "counted, and told every hour"} if full else {}
            return record(actor, action, subject, after={**after, **more})
        known = row.more.get(action, {"times": 0})
        row.more[action] = {"times": known["times"] + 1, "last": str(subject)}
        row.more_since, row.more_until = row.more_since or now, now
        row.save(update_fields=["more", "more_since", "more_until"])
    return None


class RefusalSums:
    """The keeper's duty that tells what was counted, and forgets what there is nothing to tell of."""

    name = "refusal-sums"
    interval_s = 60.0

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        now = to_datetime(self._clock.now_ms())
        due = RefusalCount.objects.filter(more_since__lte=now - TOLD_EVERY).order_by("more_since")
        for number in list(due.values_list("pk", flat=True)[:_AT_ONCE]):
            _tell(number)
        RefusalCount.objects.filter(more_since=None, since__lte=now - DAY).delete()


def _row(actor: Actor, subject: Subject | None, now: datetime) -> RefusalCount:
    name, kind = actor.name, actor.kind
    if kind == "token":
        name, kind = name.partition("/")[0], "user"
    row, _ = RefusalCount.objects.select_for_update().get_or_create(
        actor=as_stored(name), actor_kind=kind, subject=str(subject or ""), defaults={"since": now}
    )
    if row.since <= now - DAY:
        row.since, row.entries = now, 0
    return row


def _tell(number: int) -> None:
    with transaction.atomic():
        row = RefusalCount.objects.select_for_update().filter(pk=number).first()
        if row is None or row.more_since is None:
            return
        for action, counted in sorted(row.more.items()):
            after = {
                **counted,
                "since": row.more_since,
                "until": row.more_until,
                "why": f"Refused beyond the {MOST_A_DAY} of a day that have an entry each.",
            }
            about = of_text(row.subject) if row.subject else INSTALLATION
            record(Actor(row.actor, row.actor_kind), action, about, after=after)
        row.more, row.more_since, row.more_until = {}, None, None
        row.save(update_fields=["more", "more_since", "more_until"])
