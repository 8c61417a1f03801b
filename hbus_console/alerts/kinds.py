"""What can be watched: each kind of rule is declared whole by a feature, with its words, targets and measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from hbus_console.alerts.round import Case
from hbus_console.alerts.targets import TargetKind
from hbus_console.registry.loading import features
from hbus_console.registry.names import ALERT_KINDS
from hbus_console.ui import formats

#: What a rule compares with its threshold; ``None`` means that nobody knows: the alert stays as it is.
Measure = Callable[[Case], float | None]

_NOTHING = TargetKind("subject", lambda: ())
#: Units of time, and how many seconds each is.
_IN_SECONDS = {"seconds": 1, "minutes": 60}
#: Colours of severities, as the pages name them.
TONES = {"critical": "bad", "warning": "warn", "info": "info"}
#: The most urgent first.
URGENCY = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class DefaultRule:
    """A rule over everything that an installation begins with; the fields are those of a rule, times in seconds."""

    name: str
    threshold: float
    advice: str
    severity: str = "warning"
    window_s: int | None = None
    for_s: int = 0
    clear_below: float | None = None
    clear_s: int = 60
    enabled: bool = True


@dataclass(frozen=True, kw_only=True)
class AlertKind:
    """One kind of rule."""

    #: Its name in rules and in the API, at most 40 characters; no two kinds share one.
    name: str
    title: str
    #: What the threshold counts, after its number: ``messages``. ``seconds`` and ``minutes`` are said as durations.
    unit: str
    #: The unit for one of them; empty: the same.
    unit_of_one: str = ""
    #: Stands between target and threshold: "billing on booking.created **has unsettled** ≥ 100".
    says: str
    help: str
    targets: TargetKind
    measure: Measure
    #: Whether it is counted over a window.
    windowed: bool = False
    #: Whether a paused target is judged; where not, somebody holds it on purpose, and the overview says so.
    while_paused: bool = True
    #: The least threshold that makes sense, and the one that forms propose.
    least: float = 1.0
    usual: float = 1.0
    #: What a value below zero says: that what is measured is not there at all now.
    absent: str = "none"
    #: Whether what an alert says with this value stands among the concerns of its feature (``Feature.concerns``), in a
    #: line that leads further than the alert does. Then the alert has none.
    told: Callable[[float], bool] = lambda value: False
    #: Whether it comes from what is wrong with its target, and so is told in one line with that.
    follows: bool = True
    #: Its place among the kinds, the smallest first; the first of all is what a new rule begins with.
    place: int = 50
    defaults: tuple[DefaultRule, ...] = ()

    @property
    def installed(self) -> bool:
        """Whether a feature of this installation brings it."""
        return kinds().get(self.name) is self

    def said(self, value: float) -> str:
        """A value with its unit: ``2,400 messages``, ``4 m 51 s``; below zero :attr:`absent`."""
        if value < 0:
            return self.absent
        if self.unit in _IN_SECONDS:
            seconds = value * _IN_SECONDS[self.unit]
            return formats.duration(seconds * 1_000_000) if seconds >= 1 else f"{formats.num(round(seconds, 1))} s"
        return f"{formats.num(round(value, 2))} {(value == 1 and self.unit_of_one) or self.unit}".rstrip()


@cache
def kinds() -> Mapping[str, AlertKind]:
    """Every kind that an installed feature brings, by name and in order.

    Raises :class:`~engine.core.errors.ConfigurationError` when two features bring one of the same name.
    """
    found: list[AlertKind] = sorted(ALERT_KINDS.by_name(features()).values(), key=lambda it: (it.place, it.name))
    return {kind.name: kind for kind in found}


def kind_named(name: str) -> AlertKind:
    """The kind of a stored rule or alert; a stand-in that measures nothing when no installed feature brings it."""
    return kinds().get(name) or AlertKind(
        name=name,
        title=f"{name} (not installed)",
        unit="",
        says="reached",
        help="The feature that brings this kind of rule is not installed: nothing is measured.",
        targets=_NOTHING,
        measure=lambda case: None,
    )
