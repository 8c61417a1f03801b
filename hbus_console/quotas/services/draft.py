"""The settings of a quota policy, each said once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from engine.core.errors import BadInput
from engine.quota import OnLoss, Period, Whose
from engine.quota.protocol import REFILL_S
from hbus_console.drafts.setting import Choice, Clean, Flag, Lines, Number, Owner, Text, Whole
from hbus_console.drafts.settings import Settings
from hbus_console.quotas.feature import QUOTA_EDIT
from hbus_console.quotas.models import PATTERN_MOST, PLAN_MOST, QuotaPolicy
from hbus_console.quotas.overrides import read_overrides

#: The parts of a policy's page: whom it covers, how much they may, how that is shared, and what is tried.
COVERS, AMOUNT, SHARING, TRIAL = "covers", "amount", "sharing", "trial"


@dataclass(frozen=True)
class CoversPattern(Text):
    """Whom it covers: a text with ``*`` for any and ``?`` for one character."""

    most: int = PATTERN_MOST

    def check(self, value: Any, clean: Clean) -> str:
        return super().check(value, clean) or "*"


@dataclass(frozen=True)
class TimeZoneName(Text):
    """A time zone of the IANA database."""

    most: int = 64

    def check(self, value: Any, clean: Clean) -> str:
        name = super().check(value, clean) or "UTC"
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError) as error:
            raise BadInput(
                f"{name!r} is no time zone that is known here.",
                remedy="Write one of the IANA database, such as Europe/Lisbon.",
                field=self.name,
            ) from error
        return name


@dataclass(frozen=True)
class OverridesText(Lines):
    """Times with other limits, in the policy's zone."""

    rows: int = 3

    @property
    def hangs_on_others(self) -> bool:
        return True

    def check(self, value: Any, clean: Clean) -> str:
        text = super().check(value, clean)
        read_overrides(text, clean["zone"])
        return text


def _a_second(clean: Clean) -> float:
    """The burst that nobody gives."""
    limit: float = clean["limit"]
    return limit


@dataclass(frozen=True)
class PolicyDraft:
    """A policy as somebody wants it; ``owner`` names a team."""

    name: str
    owner: Annotated[str, Owner(act=QUOTA_EDIT)]
    limit: Annotated[
        float,
        Number(
            label="Limit",
            help="A second, a period, or at once. 0 lets nothing through.",
            act=QUOTA_EDIT,
            part=AMOUNT,
        ),
    ]
    burst: Annotated[
        float,
        Number(
            label="Burst",
            help="The most that goes at once after a pause; no less than a tenth of a second of the limit.",
            act=QUOTA_EDIT,
            part=AMOUNT,
            unless_said=_a_second,
        ),
    ] = 0.0
    period: Annotated[
        str,
        Choice(
            {
                Period.NONE.value: "each second",
                Period.DAY.value: "each calendar day",
                Period.MONTH.value: "each calendar month",
                Period.AT_ONCE.value: "those who are served at the same moment",
            },
            label="The limit is for",
            act=QUOTA_EDIT,
            part=AMOUNT,
        ),
    ] = Period.NONE.value
    zone: Annotated[
        str, TimeZoneName(label="Time zone", help="Of its days, months and times.", act=QUOTA_EDIT, part=AMOUNT)
    ] = "UTC"
    description: Annotated[str, Lines(2_000, act=QUOTA_EDIT)] = ""
    service: Annotated[
        str,
        CoversPattern(
            label="Of which service",
            help="api, console, publish, consume, jobs or yours. * for any, this console too; ? for one character.",
            placeholder="*",
            act=QUOTA_EDIT,
            part=COVERS,
        ),
    ] = "*"
    resource: Annotated[
        str,
        CoversPattern(
            label="For what",
            help="A topic, a subscription, a job, an endpoint; patterns as above.",
            placeholder="*",
            act=QUOTA_EDIT,
            part=COVERS,
        ),
    ] = "*"
    tenant: Annotated[
        str,
        CoversPattern(
            label="Of whom",
            help="An account with all its tokens. ada/* tells them apart: each token, MAKER/NAME, by itself.",
            placeholder="*",
            act=QUOTA_EDIT,
            part=COVERS,
        ),
    ] = "*"
    plan: Annotated[
        str,
        Text(
            PLAN_MOST, label="Tenants of the plan", help="Empty: of any plan, and of none.", act=QUOTA_EDIT, part=COVERS
        ),
    ] = ""
    whose: Annotated[
        str,
        Choice(
            {Whose.EACH.value: "each of them may so much", Whose.TOGETHER.value: "all of them together may so much"},
            label="Whose limit it is",
            act=QUOTA_EDIT,
            part=COVERS,
        ),
    ] = Whose.EACH.value
    on_loss: Annotated[
        str,
        Choice(
            {
                OnLoss.FALLBACK.value: "each node lets its part of the share below through",
                OnLoss.OPEN.value: "everything passes",
                OnLoss.CLOSED.value: "nothing passes",
            },
            label="While the store is away",
            act=QUOTA_EDIT,
            part=SHARING,
        ),
    ] = OnLoss.FALLBACK.value
    fallback_percent: Annotated[
        int,
        Whole(0, 100, "percent", label="Share of the limit meanwhile, in percent", act=QUOTA_EDIT, part=SHARING),
    ] = 10
    weight: Annotated[
        float,
        Number(
            0.001,
            label="Weight",
            help="Of a limit that tenants share: how much of it each gets beside the others.",
            act=QUOTA_EDIT,
            part=SHARING,
            rare=True,
        ),
    ] = 1.0
    floor: Annotated[
        float,
        Number(
            label="Floor",
            help="So much of a shared limit it gets before others get more.",
            act=QUOTA_EDIT,
            part=SHARING,
            rare=True,
        ),
    ] = 0.0
    priority: Annotated[
        int,
        Whole(
            -1000,
            1000,
            label="Priority",
            help="Who has a higher one is served first.",
            act=QUOTA_EDIT,
            part=SHARING,
            rare=True,
        ),
    ] = 0
    overrides: Annotated[
        str,
        OverridesText(
            5_000,
            label="Other limits at times",
            help="A line each: FROM..TO LIMIT burst BURST and why.",
            placeholder="2026-11-27T00:00..2026-11-28T06:00 120 burst 400 black friday",
            act=QUOTA_EDIT,
            part=AMOUNT,
        ),
    ] = ""
    shadow: Annotated[
        bool,
        Flag(label="Shadow", words="Only count what it would refuse", act=QUOTA_EDIT, part=TRIAL),
    ] = False
    canary_percent: Annotated[
        int,
        Whole(
            0,
            100,
            "percent",
            label="Try another limit at so many percent of the tenants",
            help="Always the same ones. 0: at none.",
            act=QUOTA_EDIT,
            part=TRIAL,
        ),
    ] = 0
    canary_limit: Annotated[float, Number(label="… the limit that is tried", act=QUOTA_EDIT, part=TRIAL)] = 0.0
    canary_burst: Annotated[float, Number(label="… and its burst", act=QUOTA_EDIT, part=TRIAL)] = 0.0


SETTINGS = Settings(PolicyDraft)


def snapshot(row: QuotaPolicy) -> dict[str, Any]:
    """A policy's settings as the audit log and its versions have them."""
    return SETTINGS.snapshot(row)


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """All but the owner, cleaned. Raises :class:`BadInput` telling each value that does not fit."""
    clean = SETTINGS.checked(values)
    if clean["period"] == Period.NONE:
        _refuse_nothing_at_once(clean, "limit", "burst")
    if clean["period"] != Period.NONE and 0 < clean["limit"] < 1:
        raise BadInput(
            f"Of a limit of {clean['limit']:g} nothing ever passes: one token is never there.",
            remedy="Set it to 1 at least, or to 0.",
            field="limit",
        )
    if clean["period"] == Period.AT_ONCE and clean["limit"] % 1:
        raise BadInput(
            f"{clean['limit']:g} cannot be served at the same moment: nobody is served by half.",
            remedy="Write a whole number.",
            field="limit",
        )
    if clean["canary_percent"]:
        if clean["whose"] == Whose.TOGETHER:
            raise BadInput(
                "A limit that all share cannot be tried at some of them: they would have two.",
                remedy="Try it at 0 percent of the tenants, or in shadow.",
                field="canary_percent",
            )
        _refuse_nothing_at_once(clean, "canary_limit", "canary_burst")
    return clean


def _refuse_nothing_at_once(clean: Mapping[str, Any], limit: str, burst: str) -> None:
    """A bucket that never holds one token lets nothing through, whatever comes in a second."""
    if clean[limit] > 0 and max(clean[burst], clean[limit] * REFILL_S) < 1:
        raise BadInput(
            f"With a burst of {clean[burst]:g} nothing ever passes: one token is never there.",
            remedy="Set it to 1 at least.",
            field=burst,
        )
