"""One limit, whom it covers, and how it ranks among others."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated
from zlib import crc32
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from engine.core.errors import BadInput
from engine.quota.periods import Period
from engine.quota.protocol import REFILL_S, KeptRule
from engine.quota.terms import Name, OnLoss

Pattern = Annotated[str, Meta(min_length=1, max_length=200)]
#: What is no letter of a pattern.
SIGNS = frozenset("*?[")
#: Seconds in which the allowance of a calendar period could be spent evenly, for what a node may spend by itself.
_SECONDS = {Period.DAY: 86_400.0, Period.MONTH: 30 * 86_400.0}


class Whose(StrEnum):
    """Who has a bucket of the rule."""

    #: Each tenant that it covers has one of its own, see :meth:`Rule.subject`.
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
        """Raises :class:`BadInput` for a zone that is none, and for an id that no store could keep."""
        if not self.id.isprintable():
            raise BadInput(f"{self.id!a} can be no id of a rule.", remedy="Use printable characters.", field="id")
        if self.period is not Period.NONE:
            try:
                ZoneInfo(self.zone)
            except (KeyError, ValueError, OSError) as error:
                raise BadInput(
                    f"{self.zone!r} is no time zone that is known here.",
                    remedy="Write one of the IANA database, such as Europe/Lisbon.",
                    field="zone",
                ) from error

    @property
    def by_program(self) -> bool:
        """Whether it tells the programs of a person apart, which its pattern of tenants says by a stroke; else all of
        them are that person: nobody has more by having more tokens.
        """
        return "/" in self.tenant

    def subject(self, name: Name) -> str:
        """The tenant as the rule sees it."""
        return name.tenant if self.by_program else name.person

    def covers(self, name: Name, plan: str) -> bool:
        return (
            self.shadow is name.shadow
            and (not self.plan or self.plan == plan)
            and (self.sample == 1.0 or place_of(self.subject(name)) < self.sample)
            and fnmatchcase(self.subject(name), self.tenant)
            and fnmatchcase(name.resource, self.resource)
            and fnmatchcase(name.service, self.service)
        )

    @property
    def by_calendar(self) -> bool:
        """Whether it counts days or months."""
        return self.period in _SECONDS

    def rank(self) -> tuple[bool, bool, int, int, int, bool, str]:
        """The greater, the more it is about somebody: a tenant before a plan before all, then the longer pattern."""
        by_name = not SIGNS & set(self.tenant)
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


def place_of(tenant: str) -> float:
    """Where among all tenants one stands, from 0 to 1: the same in every process and version."""
    return crc32(tenant.encode()) / 2**32


def _letters(pattern: str) -> int:
    return sum(letter not in "*?" for letter in pattern)
