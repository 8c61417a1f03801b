"""How limits stand: what nodes told last, and what was admitted and refused of late, by policy and by limiter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from django.db.models import F

from engine.quota import Book, Source
from engine.quota.protocol import LIFETIME_S, BucketLink
from engine.quota.terms import Name
from engine.quota.uses import Key, Used
from hbus_console.evidence.totals import total
from hbus_console.quotas.models import QuotaUse
from hbus_console.quotas.reports import SILENT_AFTER_MS, LimiterReport, NodeReport, read_reports
from hbus_console.quotas.services.rules import policy_of
from hbus_console.quotas.sight import sees, uses_q
from hbus_console.quotas.wording import SOURCES

#: Minutes that "of late" is, the one that goes on among them.
LATE_MINUTES = 5
#: Limiters whose policies are looked up, those that refused and admitted most.
MOST_LIMITERS = 2_000


@dataclass(frozen=True)
class NodeNow:
    """One process as it told last."""

    name: str
    at_ms: int
    report: NodeReport
    #: When it is looked at.
    now_ms: int

    @property
    def silent(self) -> bool:
        return self.now_ms - self.at_ms > SILENT_AFTER_MS

    @property
    def away_s(self) -> float:
        """For how long its control plane has been away, as far as it told; 0: it is there."""
        return max(0.0, (self.now_ms - self.report.away_ms) / 1000) if self.report.away_ms else 0.0

    @property
    def cut_off(self) -> bool:
        return bool(self.report.away_ms) and not self.silent


@dataclass(frozen=True)
class HeldByNode:
    """What one node holds for a limiter."""

    node: NodeNow
    limiter: LimiterReport
    behind: bool

    @property
    def source(self) -> tuple[str, str]:
        return SOURCES[self.limiter.source]

    @property
    def of_permit(self) -> bool:
        return self.limiter.source is Source.PERMIT and self.limiter.granted > 0

    @property
    def age_s(self) -> float:
        """Of the permit that is being spent."""
        return max(0.0, LIFETIME_S - self.limiter.expires_s)

    @property
    def tokens(self) -> float | None:
        """What it may let go at once while the control plane is away; ``None``: without end."""
        return None if self.limiter.tokens < 0 else self.limiter.tokens

    @property
    def meter(self) -> tuple[float, float]:
        """What is left, and of how much."""
        if self.of_permit:
            return self.limiter.left, self.limiter.granted
        return (self.tokens or 0.0), max(1.0, self.tokens or 0.0)


def nodes_now(now_ms: int) -> list[NodeNow]:
    """Every process that told within the hour, by name."""
    return [NodeNow(row.node, row.at_ms, report, now_ms) for row, report in read_reports(now_ms)]


def late_since(now_ms: int) -> int:
    """The first minute of what is of late, in seconds since the epoch."""
    return (now_ms // 60_000 - LATE_MINUTES + 1) * 60


def late_uses(now_ms: int, scopes: tuple[str, ...], most: int) -> dict[Key, Used]:
    """What limiters in ``scopes`` admitted and refused of late; those that refused, then admitted most."""
    since = late_since(now_ms)
    # One by one, and those of a clock that is a little ahead: of a range SQLite thinks that it is found faster by
    # looking for it at each limiter that there ever was.
    minutes = range(since, since + (LATE_MINUTES + 1) * 60, 60)
    rows = (
        QuotaUse.objects.filter(uses_q(scopes), minute__in=minutes)
        .values_list("service", "resource", "tenant")
        .annotate(a=total("admitted"), d=total("delayed"), r=total("refused"), s=total("shadowed"))
        .order_by(F("r").desc(), F("a").desc(), "service", "resource", "tenant")
    )
    return {(row[0], row[1], row[2]): Used(*row[3:7]) for row in rows[:most]}


@dataclass
class PolicyNow:
    """What one policy does now."""

    admitted_s: float = 0.0
    refused_s: float = 0.0
    #: Of late.
    refused: int = 0
    #: Tokens that were waited for.
    delayed: int = 0
    shadowed: int = 0
    limiters: list[Key] = field(default_factory=list)


@dataclass(frozen=True)
class Throttled:
    """A limiter that refuses now."""

    key: Key
    policy: str
    admitted_s: float
    refused_s: float

    @property
    def words(self) -> str:
        service, resource, tenant = self.key
        return " · ".join(each for each in (tenant or "nobody", service, resource) if each)


class QuotasNow:
    """One look, at one moment, with what lies in ``scopes``. Reads each thing once."""

    def __init__(self, now_ms: int, scopes: tuple[str, ...], book: Book | None) -> None:
        self.now_ms = now_ms
        self.scopes = scopes
        self.book = book
        self._rules: dict[tuple[Key, bool], tuple[str, ...]] = {}

    @cached_property
    def nodes(self) -> list[NodeNow]:
        return nodes_now(self.now_ms)

    @property
    def told(self) -> list[NodeNow]:
        """Those that are not silent."""
        return [node for node in self.nodes if not node.silent]

    @property
    def version(self) -> int:
        return self.book.version if self.book else 0

    @property
    def current(self) -> int:
        """How many nodes that are not silent have the newest book."""
        return sum(node.report.version >= self.version for node in self.told)

    @cached_property
    def late(self) -> dict[Key, Used]:
        return late_uses(self.now_ms, self.scopes, MOST_LIMITERS)

    @cached_property
    def rates(self) -> dict[Key, tuple[float, float]]:
        """Admitted and refused a second, by limiter, as the nodes told last."""
        found: dict[Key, list[float]] = {}
        for _, limiter in self._limiters():
            rates = found.setdefault(_key(limiter), [0.0, 0.0])
            rates[0] += limiter.admitted_s
            rates[1] += limiter.refused_s
        return {key: (admitted, refused) for key, (admitted, refused) in found.items()}

    @cached_property
    def _any_shadow(self) -> bool:
        return self.book is not None and any(rule.shadow for rule in self.book.rules)

    def policies_of(self, key: Key, *, shadow: bool = False) -> tuple[str, ...]:
        """The policies that a limiter is held to, the nearest first; with ``shadow`` those that only count."""
        if (key, shadow) not in self._rules:
            rules = self.book.rules_of(Name(*key, shadow=shadow)) if self.book else ()
            self._rules[key, shadow] = tuple(dict.fromkeys(policy_of(rule.id) for rule in rules))
        return self._rules[key, shadow]

    def links(self, key: Key, policy: str = "") -> tuple[BucketLink, ...]:
        """The buckets that a limiter takes its tokens from; with ``policy`` that of this policy alone."""
        chain = self.book.resolve(Name(*key), self.now_ms).chain if self.book else ()
        return tuple(link for link in chain if policy in ("", policy_of(link.rule)))

    @cached_property
    def by_policy(self) -> Mapping[str, PolicyNow]:
        """What each policy does. What was refused is told at the nearest of those that hold."""
        found: dict[str, PolicyNow] = defaultdict(PolicyNow)
        for key in dict.fromkeys([*self.late, *self.rates]):
            used, (admitted_s, refused_s) = self.late.get(key, Used()), self.rates.get(key, (0.0, 0.0))
            for place, name in enumerate(self.policies_of(key)):
                policy = found[name]
                policy.limiters.append(key)
                policy.admitted_s += admitted_s
                if not place:
                    policy.refused += used.refused
                    policy.delayed += used.delayed
                    policy.refused_s += refused_s
            shadows = self.policies_of(key, shadow=True) if self._any_shadow else ()
            for place, name in enumerate(shadows):
                policy = found[name]
                policy.limiters.append(key)
                policy.admitted_s += admitted_s
                if not place:
                    policy.shadowed += used.shadowed
        return found

    def throttled(self, most: int) -> list[Throttled]:
        """Who is refused now, those refused most first."""
        worst = sorted(self.rates.items(), key=lambda each: (-each[1][1], each[0]))
        return [
            Throttled(key, next(iter(self.policies_of(key)), ""), admitted, refused)
            for key, (admitted, refused) in worst[:most]
            if refused > 0
        ]

    def busiest(self, policy: str) -> Key | None:
        """The limiter of a policy that refused, or else admitted, most of late."""
        known = self.by_policy.get(policy)
        if known is None or not known.limiters:
            return None

        def busy(key: Key) -> tuple[int, float, int]:
            used = self.late.get(key, Used())
            return used.refused, self.rates.get(key, (0.0, 0.0))[0], used.admitted

        return max(sorted(known.limiters), key=busy)

    def holdings(self, wanted: Iterable[Key]) -> list[HeldByNode]:
        """What every node holds for these limiters."""
        keys = set(wanted)
        return [
            HeldByNode(node, limiter, limiter.version < self.version)
            for node, limiter in self._limiters()
            if _key(limiter) in keys
        ]

    def _limiters(self) -> Iterable[tuple[NodeNow, LimiterReport]]:
        for node in self.told:
            for limiter in node.report.limiters:
                if sees(self.scopes, limiter.service, limiter.resource):
                    yield node, limiter


def _key(limiter: LimiterReport) -> Key:
    return limiter.service, limiter.resource, limiter.tenant
