"""The settings of an alert rule, each said once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.access.permissions import GLOBAL
from hbus_console.access.scopes import valid_scope
from hbus_console.alerts.feature import ALERT_EDIT
from hbus_console.alerts.kinds import URGENCY, AlertKind, kinds
from hbus_console.alerts.targets import PATTERN_LIMIT
from hbus_console.drafts.setting import Choice, Clean, Flag, Lines, Number, Owner, Setting, Text, Whole
from hbus_console.drafts.settings import Settings
from hbus_console.ui import forms

#: The parts of a rule's page: what is watched, from when on it fires, and who is told.
WATCHED, MEASURED, TOLD = "watched", "measured", "told"
DAY_S = 24 * 3600
#: A default window for kinds that are counted over one.
WINDOW_S = 300


@dataclass(frozen=True)
class KindName(Setting):
    """The name of an installed kind of rule."""

    def check(self, value: Any, clean: Clean) -> str:
        return checks.choice(value, self.name, kinds())


@dataclass(frozen=True)
class Scope(Text):
    """A scope of namespaces; a form that leaves it empty means all."""

    def check(self, value: Any, clean: Clean) -> str:
        return valid_scope(super().check(value, clean), field=self.name)

    def typed(self, form: forms.Form) -> str:
        return super().typed(form) or GLOBAL


@dataclass(frozen=True)
class Pattern(Text):
    """A name of a target in its namespace, or a pattern on such names; empty: every one."""

    @property
    def hangs_on_others(self) -> bool:
        return True

    def check(self, value: Any, clean: Clean) -> str:
        pattern, kind = super().check(value, clean), _kind(clean)
        targets = kind.targets
        if pattern and not targets.within:
            raise BadInput(
                f"{kind.title} is about {targets.words}s.", remedy="Leave the pattern on names empty.", field=self.name
            )
        if pattern and not targets.is_pattern(pattern):
            proposed = (
                f"For example {targets.example}, or {targets.example_pattern}; leave" if targets.example else "Leave"
            )
            raise BadInput(
                f"{pattern!r} is neither a {targets.words}'s name nor a pattern.",
                remedy=f"{proposed} it empty for every {targets.words}.",
                field=self.name,
            )
        return pattern


@dataclass(frozen=True)
class OfTeam(Owner):
    """The team to whose things the rule is narrowed; empty: anybody's."""

    widget: ClassVar[str] = "alerts/_of_team.html"

    def answered(self, kind: Any) -> Any:
        return kind

    def answer(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Window(Whole):
    """Over how many seconds it is counted; 0 for kinds that are not."""

    def checked(self, value: Any, clean: Clean) -> Any:
        return super().checked(value, clean) if _kind(clean).windowed else 0


@dataclass(frozen=True)
class Severity(Choice):
    """How urgent it is; a page offers the most urgent first."""

    @property
    def options(self) -> list[tuple[str, str]]:
        return [(name, self.words[name]) for name in URGENCY]


@dataclass(frozen=True)
class ChannelNames(Setting):
    """Names of channels; they are looked up where the rule is written."""

    widget: ClassVar[str] = "alerts/_channel_names.html"
    stored: ClassVar[bool] = False

    def check(self, value: Any, clean: Clean) -> Any:
        return value

    def of(self, row: Any) -> list[str]:
        return sorted(channel.name for channel in row.channels.all())

    def typed(self, form: forms.Form) -> tuple[str, ...]:
        return forms.several(form, self.name)


def _kind(clean: Clean) -> AlertKind:
    return kinds()[clean["kind"]]


def _least(clean: Clean) -> float:
    return _kind(clean).least


def _window(clean: Clean) -> int:
    return WINDOW_S


@dataclass(frozen=True)
class RuleDraft:
    """A rule as somebody wants it, in the words of the API; empty strings do not narrow.

    ``topics`` is a scope of namespaces, ``group`` a name or a pattern on names in there, ``owner`` names a team,
    ``channels`` are names.
    """

    name: Annotated[
        str,
        Text(
            80,
            label="Name of the rule",
            placeholder="Partner sync falls behind",
            required=True,
            act=ALERT_EDIT,
            part=WATCHED,
        ),
    ]
    kind: Annotated[str, KindName(act=ALERT_EDIT, fixed=True)]
    threshold: Annotated[
        float, Number(bound=_least, label="Fires from (threshold)", required=True, act=ALERT_EDIT, part=MEASURED)
    ]
    topics: Annotated[str, Scope(200, column="scope", required=True, act=ALERT_EDIT, part=WATCHED)] = GLOBAL
    group: Annotated[
        str, Pattern(PATTERN_LIMIT, column="pattern", placeholder="every one", act=ALERT_EDIT, part=WATCHED)
    ] = ""
    owner: Annotated[str, OfTeam(label="Only those of team", act=ALERT_EDIT, part=WATCHED)] = ""
    window_s: Annotated[
        int | None,
        Window(
            30,
            DAY_S,
            "seconds",
            label="Counted over",
            help="seconds",
            unless_said=_window,
            rare=True,
            act=ALERT_EDIT,
            part=MEASURED,
        ),
    ] = None
    for_s: Annotated[
        int,
        Whole(
            0,
            DAY_S,
            "seconds",
            label="And lasting for",
            help="seconds; until then it is pending",
            act=ALERT_EDIT,
            part=MEASURED,
        ),
    ] = 0
    #: ``None``: the threshold.
    clear_below: Annotated[
        float | None,
        Number(
            may_be_none=True,
            label="Over below",
            help="Lower than the threshold, so that it does not flap.",
            placeholder="the threshold",
            act=ALERT_EDIT,
            part=MEASURED,
        ),
    ] = None
    clear_s: Annotated[
        int, Whole(0, DAY_S, "seconds", label="For at least", help="seconds", act=ALERT_EDIT, part=MEASURED)
    ] = 60
    severity: Annotated[
        str, Severity({"info": "", "warning": "", "critical": ""}, label="Severity", act=ALERT_EDIT, part=TOLD)
    ] = "warning"
    enabled: Annotated[bool, Flag("on", label="State", act=ALERT_EDIT, part=TOLD)] = True
    channels: Annotated[
        tuple[str, ...], ChannelNames(label="Channels (this console in any case)", act=ALERT_EDIT, part=TOLD)
    ] = ()
    advice: Annotated[str, Lines(1_000, label="What to do when it fires", rows=4, act=ALERT_EDIT, part=TOLD)] = ""


SETTINGS = Settings(RuleDraft)
