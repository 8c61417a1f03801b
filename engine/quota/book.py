"""The rules of an installation in one version, and which of them apply to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated
from zlib import crc32
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from engine.core.errors import BadInput
from engine.core.prepared import prepared
from engine.quota.periods import Period, period_at
from engine.quota.plane import KeptBook
from engine.quota.protocol import MOST_LINKS, REFILL_S, BucketLink, KeptRule
from engine.quota.terms import Name, OnLoss, Terms

Pattern = Annotated[str, Meta(min_length=1, max_length=200)]
#: Seconds in which the allowance of a calendar period could be spent evenly, for what a node may spend by itself.
_SECONDS = {Period.DAY: 86_400.0, Period.MONTH: 30 * 86_400.0}


class Whose(StrEnum):
    """Who has a bucket of the rule."""

    #: Each tenant that it covers has one of its own.
    EACH = "each"
    #: All that it covers share one.
    TOGETHER = "together"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One limit, and whom it covers. Patterns have ``*`` for any text and ``?`` for one character."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]
    #: Tokens a second; with a calendar period tokens in each; *at once* no tokens but seats (:mod:`.seats`).
    limit: Annotated[float, Meta(ge=0, le=1e12)]
    burst: Annotated[float, Meta(ge=0, le=1e12)]
    service: Pattern = "*"
    resource: Pattern = "*"
    tenant: Pattern = "*"
    #: Covers tenants of this plan alone; empty: of any, and of none.
    plan: str = ""
    whose: Whose = Whose.EACH
    period: Period = Period.NONE
    #: The time zone whose days and months count.
    zone: str = "UTC"
    on_loss: OnLoss = OnLoss.FALLBACK
    fallback: Annotated[float, Meta(ge=0, le=1)] = 0.1
    weight: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    floor: Annotated[float, Meta(ge=0, le=1e12)] = 0.0
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    #: It refuses nothing: what it would refuse is counted by whoever asks for shadow limiters.
    shadow: bool = False
    #: Covers this share of the tenants alone, always the same ones, and these before rules that cover all.
    sample: Annotated[float, Meta(gt=0, le=1)] = 1.0

    def __post_init__(self) -> None:
        """Raises :class:`BadInput` for a zone that is none."""
        if self.period is not Period.NONE:
            try:
                ZoneInfo(self.zone)
            except (KeyError, ValueError, OSError) as error:
                raise BadInput(
                    f"{self.zone!r} is no time zone that is known here.",
                    remedy="Write one of the IANA database, such as Europe/Lisbon.",
                    field="zone",
                ) from error

    def covers(self, name: Name, plan: str) -> bool:
        return (
            self.shadow is name.shadow
            and (not self.plan or self.plan == plan)
            and (self.sample == 1.0 or _place(name.tenant) < self.sample)
            and fnmatchcase(name.tenant, self.tenant)
            and fnmatchcase(name.resource, self.resource)
            and fnmatchcase(name.service, self.service)
        )

    @property
    def by_calendar(self) -> bool:
        """Whether it counts days or months."""
        return self.period in _SECONDS

    def rank(self) -> tuple[bool, bool, int, int, int, bool, str]:
        """The greater, the more it is about somebody: a tenant before a plan before all, then the longer pattern."""
        by_name = not set("*?[") & set(self.tenant)
        return (
            by_name,
            bool(self.plan),
            _letters(self.tenant),
            _letters(self.resource),
            _letters(self.service),
            self.sample < 1.0,
            self.id,
        )

    def room(self) -> float:
        """The most that can go at once."""
        return self.limit if self.period is not Period.NONE else max(self.burst, self.limit * REFILL_S)

    def alone(self) -> float:
        """Tokens a second that all nodes together may spend while the control plane is away."""
        return self.fallback * self.limit / _SECONDS.get(self.period, 1.0)

    def kept(self) -> KeptRule:
        """What the control plane is told of it."""
        return KeptRule(self.limit, self.burst, self.alone() / self.limit if self.limit else 0.0, bool(self.period))


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """All rules in one version. A newer version has a greater number."""

    version: Annotated[int, Meta(ge=1)]
    rules: tuple[Rule, ...] = ()
    #: The plan of each tenant that has one.
    plans: Mapping[str, str] = {}
    #: How many nodes there are, for what each may spend before the control plane has told it.
    nodes: Annotated[int, Meta(ge=1)] = 1

    def resolve(self, name: Name, at_ms: int, among: Sequence[Rule] | None = None) -> Terms:
        """What holds for a limiter at a moment (which matters to calendar periods alone). ``among``: the rules that may
        cover it, where somebody knows that no other does.

        Of the rules that give each tenant its own bucket, the one that is most about this tenant; of those with a
        period likewise, for each kind of period. All that tenants share.
        """
        plan = self.plans.get(name.tenant, "")
        rules = self.rules if among is None else among
        covering = [rule for rule in rules if rule.period is not Period.AT_ONCE and rule.covers(name, plan)]
        own: dict[Period, Rule] = {}
        for rule in covering:
            if rule.whose is Whose.EACH and (rule.period not in own or own[rule.period].rank() < rule.rank()):
                own[rule.period] = rule
        chosen = [*own.values(), *(rule for rule in covering if rule.whose is Whose.TOGETHER)][:MOST_LINKS]
        if not chosen:
            return Terms(version=self.version)
        nearest = max(chosen, key=lambda rule: (rule.whose is Whose.EACH, rule.rank()))
        rates = [rule for rule in chosen if rule.period is Period.NONE]
        return Terms(
            tuple(_link(rule, name, at_ms) for rule in chosen),
            min((rule.limit for rule in rates), default=nearest.limit),
            min(rule.room() for rule in chosen),
            min(rule.alone() for rule in chosen) / self.nodes,
            nearest.on_loss,
            nearest.weight,
            nearest.floor,
            nearest.priority,
            self.version,
        )

    def kept(self) -> tuple[KeptBook, dict[str, KeptRule]]:
        """What is given to a control plane."""
        return KeptBook(self.version, msgspec.json.encode(self)), {
            rule.id: rule.kept() for rule in self.rules if rule.period is not Period.AT_ONCE
        }


_decoder = msgspec.json.Decoder(prepared(Book))


def read_book(kept: KeptBook) -> Book:
    """What a control plane keeps, read again; raises ``BadInput`` when it is none of ours."""
    try:
        return _decoder.decode(kept.text)
    except (msgspec.DecodeError, BadInput) as error:
        raise BadInput(
            f"The rules in force (version {kept.version}) cannot be read: {error}.",
            remedy="Save any policy in the console: it publishes them anew.",
        ) from error


def _link(rule: Rule, name: Name, at_ms: int) -> BucketLink:
    owner = name.tenant if rule.whose is Whose.EACH else ""
    if rule.period is Period.NONE:
        return BucketLink(rule.id, owner)
    return BucketLink(rule.id, owner, *period_at(rule.period, rule.zone, at_ms))


def _place(tenant: str) -> float:
    """Where among all tenants one stands, from 0 to 1: the same in every process and version."""
    return crc32(tenant.encode()) / 2**32


def _letters(pattern: str) -> int:
    return sum(letter not in "*?" for letter in pattern)
