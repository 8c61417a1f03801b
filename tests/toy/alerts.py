from __future__ import annotations

from collections.abc import Iterable

from hbus_console.alerts.kinds import AlertKind
from hbus_console.alerts.round import Round
from hbus_console.alerts.targets import Target, TargetKind
from tests.toy.lamps import subject
from tests.toy.models import Lamp


def _lamps() -> Iterable[Target]:
    return [Target(subject(row), None, paused=False, created_ms=0) for row in Lamp.objects.all()]


def _burning(now: Round) -> set[tuple[str, str]]:
    return set(Lamp.objects.filter(burning=True).values_list("street", "name"))


KINDS = (
    AlertKind(
        name="lamp_burning",
        title="Burning lamps",
        unit="lamps",
        says="shines with",
        help="Whether a lamp burns.",
        targets=TargetKind("lamp", _lamps, within="street"),
        measure=lambda case: float(case.target.key in case.round.once(_burning)),
    ),
)
