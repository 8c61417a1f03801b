"""How a notice tells that facts of one engine could not be booked, and how the notices of one engine are found."""

from __future__ import annotations

from django.db.models import Case, Value, When
from django.db.models.functions import Left, StrIndex

from hbus_console.evidence.salvage import Loss

_BEGINS, _ENDS = "Of the engine ", ":"


def told(loss: Loss) -> str:
    """The detail of its notice; names the engine first, and no number, so that repetitions read alike."""
    return f"{_BEGINS}{loss.engine}{_ENDS} {loss.why}"


#: What the details of one engine's losses have in common, and no other notice's.
BY_ENGINE = Case(
    When(detail__startswith=_BEGINS, then=Left("detail", StrIndex("detail", Value(_ENDS)))), default=Value("")
)
