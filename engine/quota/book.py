"""The rules of an installation in one version, and which of them apply to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Annotated

import msgspec
from msgspec import Meta

from engine.core.errors import BadInput
from engine.core.prepared import prepared
from engine.quota.periods import Period, period_at
from engine.quota.plane import KeptBook
from engine.quota.protocol import MOST_LINKS, BucketLink, KeptRule
from engine.quota.rule import Rule, Whose
from engine.quota.rule_index import RuleIndex
from engine.quota.terms import Name, Terms

#: Limiters whose rules are remembered.
MOST_REMEMBERED = 50_000

__all__ = ["Book", "Rule", "Whose", "read_book"]


class Book(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All rules in one version. A newer version has a greater number. Thread-safe."""

    version: Annotated[int, Meta(ge=1)]
    rules: tuple[Rule, ...] = ()
    #: The plan of each tenant that has one.
    plans: Mapping[str, str] = {}
    #: How many nodes there are, for what each may spend before the control plane has told it.
    nodes: Annotated[int, Meta(ge=1)] = 1

    @cached_property
    def index(self) -> RuleIndex:
        """By which rules of tokens are found without looking at each."""
        return RuleIndex(rule for rule in self.rules if rule.period is not Period.AT_ONCE)

    @cached_property
    def seat_index(self) -> RuleIndex:
        """Likewise of rules of seats."""
        return RuleIndex(rule for rule in self.rules if rule.period is Period.AT_ONCE)

    def plan_of(self, name: Name) -> str:
        """The plan of the tenant itself, or else of whose it is."""
        return self.plans.get(name.tenant) or self.plans.get(name.person, "")

    def is_about(self, service: str) -> bool:
        """Whether any rule is."""
        found = self._services.get(service)
        if found is None:
            found = self._services[service] = any(fnmatchcase(service, rule.service) for rule in self.rules)
        return found

    def rules_of(self, name: Name) -> tuple[Rule, ...]:
        """The rules that hold for a limiter, the nearest first.

        Of those that give each tenant its own bucket, the one that is most about this tenant; of those with a period
        likewise, for each kind of period. All that tenants share.
        """
        found = self._found.get(name)
        if found is None:
            if len(self._found) >= MOST_REMEMBERED:
                self._found.clear()
            found = self._found[name] = self._rules_of(name)
        return found

    def resolve(self, name: Name, at_ms: int) -> Terms:
        """What holds for a limiter at a moment, which matters to calendar periods alone: by :meth:`rules_of`."""
        chosen = self.rules_of(name)
        if not chosen:
            return Terms(version=self.version)
        nearest = chosen[0]
        rates = [rule for rule in chosen if rule.period is Period.NONE]
        return Terms(
            tuple(self._link(rule, name, at_ms) for rule in chosen),
            min((rule.limit for rule in rates), default=nearest.limit),
            min(rule.room() for rule in chosen),
            tuple(rule.alone() / self.nodes for rule in chosen),
            nearest.on_loss,
            nearest.weight,
            nearest.floor,
            nearest.priority,
            self.version,
        )

    def changes_since(self, old: Book) -> Callable[[Name], bool]:
        """Whether a limiter may be held to other terms than by that book, but for what its calendar says."""
        mine, theirs = {rule.id: rule for rule in self.rules}, {rule.id: rule for rule in old.rules}
        kept = [rule.id for rule in self.rules if rule.id in theirs]
        if (
            self.nodes != old.nodes
            or len(mine) < len(self.rules)
            or len(theirs) < len(old.rules)
            or kept != [rule.id for rule in old.rules if rule.id in mine]
        ):
            return lambda name: True
        altered = RuleIndex(
            [
                rule
                for of, others in ((mine, theirs), (theirs, mine))
                for rule in of.values()
                if others.get(rule.id) != rule
            ]
        )
        plans = {tenant for tenant, _ in set(self.plans.items()) ^ set(old.plans.items())}
        return lambda name: (
            name.tenant in plans or name.person in plans or bool(altered.covering(name, self.plan_of(name)))
        )

    def kept(self) -> tuple[KeptBook, dict[str, KeptRule]]:
        """What is given to a control plane."""
        return KeptBook(self.version, msgspec.json.encode(self)), {
            rule.id: rule.kept() for rule in self.rules if rule.period is not Period.AT_ONCE
        }

    @cached_property
    def _services(self) -> dict[str, bool]:
        """Those that were asked for: of each installation a handful."""
        return {}

    @cached_property
    def _found(self) -> dict[Name, tuple[Rule, ...]]:
        return {}

    def _rules_of(self, name: Name) -> tuple[Rule, ...]:
        own: dict[Period, Rule] = {}
        together: list[Rule] = []
        for rule in self.index.covering(name, self.plan_of(name)):
            if rule.whose is Whose.TOGETHER:
                together.append(rule)
            elif rule.period not in own or own[rule.period].rank() < rule.rank():
                own[rule.period] = rule
        nearest_first = partial(sorted, key=Rule.rank, reverse=True)
        return tuple([*nearest_first(own.values()), *nearest_first(together)][:MOST_LINKS])

    @cached_property
    def _periods(self) -> dict[tuple[Period, str], tuple[int, int]]:
        """Those that were asked for last: to find one takes longer than the rest of :meth:`resolve`."""
        return {}

    def _link(self, rule: Rule, name: Name, at_ms: int) -> BucketLink:
        owner = rule.subject(name) if rule.whose is Whose.EACH else ""
        if rule.period is Period.NONE:
            return BucketLink(rule.id, owner)
        began_ms, ends_ms = self._periods.get((rule.period, rule.zone), (0, 0))
        if not began_ms <= at_ms < ends_ms:
            began_ms, ends_ms = self._periods[rule.period, rule.zone] = period_at(rule.period, rule.zone, at_ms)
        return BucketLink(rule.id, owner, began_ms, ends_ms)


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
