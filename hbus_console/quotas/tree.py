"""Policies in the order of their inheritance: everyone, then plans, then tenants, each beneath what it narrows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.wording import covers_words, limit_words, together

#: Of which service, and for what.
_Patterns = tuple[str, str]
#: By plan, the empty one for everybody's.
_Wide = Mapping[str, Sequence[tuple[_Patterns, str]]]
#: Levels: whom a policy is about.
EVERYONE, PLAN, TENANT = 0, 1, 2


class Place(NamedTuple):
    """As much of a policy as says where it stands. The names are those of its columns."""

    name: str
    service: str
    resource: str
    tenant: str
    plan: str


class Branch:
    """One policy at its place."""

    def __init__(self, policy: QuotaPolicy, depth: int) -> None:
        self.policy = policy
        self.depth = depth
        self.settings: Mapping[str, Any] = snapshot(policy)

    @property
    def covers(self) -> str:
        return covers_words(self.settings)

    @property
    def limit(self) -> str:
        return limit_words(self.settings)

    @property
    def together(self) -> bool:
        return together(self.settings)


def in_order(places: Iterable[Place], plans: Mapping[str, str]) -> dict[str, int]:
    """How deep each stands, by its name and in order; ``plans`` are those of tenants. What stands beneath another
    covers a part of it.
    """
    policies = sorted(places, key=lambda place: (_level(place), place.name))
    wide = _wide(policies)
    children: dict[str, list[str]] = {}
    for place in policies:
        children.setdefault(_parent(place, wide, plans), []).append(place.name)
    found: dict[str, int] = {}

    def take(parent: str, depth: int) -> None:
        for name in children.get(parent, ()):
            found[name] = depth
            take(name, depth + 1)

    take("", 0)
    return found


def _wide(policies: Iterable[Place]) -> _Wide:
    """Of those that others may stand beneath one for each pair of patterns, the longer patterns first, by the plan that
    they are for: thousands of policies have few pairs.
    """
    found: dict[str, dict[_Patterns, str]] = {}
    for place in policies:
        if _level(place) < TENANT:
            named = found.setdefault(place.plan, {})
            patterns = place.service, place.resource
            named[patterns] = max(place.name, named.get(patterns, ""))
    return {
        plan: sorted(named.items(), key=lambda each: (_letters(each[0]), each[1]), reverse=True)
        for plan, named in found.items()
    }


def _level(place: Place) -> int:
    if place.tenant != "*":
        return TENANT
    return PLAN if place.plan else EVERYONE


def _parent(place: Place, wide: _Wide, plans: Mapping[str, str]) -> str:
    """The nearest policy of a wider level that covers all this one does; the empty name when there is none."""
    level = _level(place)
    plan = place.plan or plans.get(place.tenant, "")
    # The nearest level first, then the longer patterns.
    nearer = wide.get(plan, []) if plan and level == TENANT else []
    further = wide.get("", []) if level > EVERYONE else []
    return next((name for patterns, name in (*nearer, *further) if _covers(patterns, place)), "")


def _covers(patterns: _Patterns, narrow: Place) -> bool:
    service, resource = patterns
    return fnmatchcase(narrow.service, service) and fnmatchcase(narrow.resource, resource)


def _letters(patterns: _Patterns) -> int:
    return sum(letter not in "*?" for letter in "".join(patterns))
