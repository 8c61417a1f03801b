"""Kettles stand in rooms; what they measure is what a test has poured in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.core.subject import Subject
from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round
from hbus_console.alerts.targets import Target, TargetKind
from hbus_console.teams.models import Team

#: Degrees by room and kettle; a test fills it.
HEAT: dict[tuple[str, str], float] = {}
#: How often they were read.
LOOKS: list[int] = []


def _kettles() -> Iterable[Target]:
    owner = Team.objects.filter(name="Kitchen").first()
    return [Target(Subject("kettle", *key), owner.pk if owner else None, False, 0) for key in sorted(HEAT)]


def _heat(case: Case) -> float | None:
    return case.round.once(_look).get(case.target.key)


def _look(now: Round) -> Mapping[tuple[str, str], float]:
    LOOKS.append(now.now_ms)
    return dict(HEAT)


KINDS = (
    AlertKind(
        name="kettle_heat",
        title="Heat of a kettle",
        unit="degrees",
        unit_of_one="degree",
        says="is as hot as",
        help="How hot a kettle is.",
        targets=TargetKind("kettle", _kettles, within="room"),
        measure=_heat,
        defaults=(DefaultRule("A kettle boils", 100, "Take it off.", clear_s=0),),
    ),
)
