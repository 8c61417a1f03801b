"""What moves: ``archive``, with each commit of the lake, ``series``, with each roll-up of a day, ``audits`` and
``queries``."""

from __future__ import annotations

from django.db.models import Count, Max, Q

from hbus_console.pipelines.models import BusAudit, LakeQuery, SavedQuery
from hbus_console.pipelines.series import rolled_up_ms
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll
from hbus_console.wiring.lake import lake

_RUNS = Q(state=LakeQuery.State.RUNNING)


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The same for everybody: numbers, which say of no topic that it moved."""
    marks = {"archive": _version, "series": rolled_up_ms, "audits": _last_audit, "queries": _queries}
    return LiveCells(marks={name: once_a_poll(look) for name, look in marks.items()})


def _version() -> int:
    return lake().version()


def _last_audit() -> int:
    return BusAudit.objects.values_list("pk", flat=True).first() or 0


def _queries() -> str:
    """A query is made, is run, and is over: each moves one of these; so does what is saved."""
    made = LakeQuery.objects.aggregate(last=Max("pk"), took=Count("took_ms"), runs=Count("pk", filter=_RUNS))
    saved = SavedQuery.objects.aggregate(last=Max("saved_at"), many=Count("pk"))
    return f"{made}{saved}"
