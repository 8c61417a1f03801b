"""What moves: ``operations`` and each ``operation:…`` of the newest and of those under way; all of them as well when
the evidence of what became of things grows old.
"""

from __future__ import annotations

from django.db.models import Q

from engine.core.subject import Subject
from hbus_console.access.scopes import scopes_q
from hbus_console.evidence.freshness import facts
from hbus_console.operations.models import ACTIVE, Operation
from hbus_console.ui.live import LiveCells

State = Operation.State
#: Operations looked at beside those under way.
LATEST = 50
#: What is told of one: everything but what was asked and where it reads on.
_TOLD = [field.attname for field in Operation._meta.concrete_fields if field.name not in ("spec", "cursor")]


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The newest operations in ``scopes``, and all of them that may still change: three queries."""
    seen = Operation.objects.filter(scopes_q(scopes, "namespace"))
    moving = Q(state__in=(*ACTIVE, State.SETTLING))
    # What was ended in the midst of it is followed as well.
    active = seen.filter(moving | Q(state__in=(State.CANCELLED, State.FAILED), copies__gt=0, decided_at=None))
    columns = ("pk", "namespace", *_TOLD)
    rows = [*seen.order_by("-pk").values_list(*columns)[:LATEST], *active.values_list(*columns)]
    booked = facts(now_ms).why
    marks = {str(Subject("operation", namespace, str(pk))): (booked, *map(str, told)) for pk, namespace, *told in rows}
    return LiveCells(marks={**marks, "operations": (booked, *sorted(marks.items()))})
