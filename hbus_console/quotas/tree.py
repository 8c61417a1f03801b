"""Policies in the order of their inheritance: everyone, then plans, then tenants, each beneath what it narrows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.wording import covers_words, limit_words, together

#: Of which service, and for what.
_Patterns = tuple[str, str]
#: By plan, the empty one for everybody's.
_Wide = Mapping[str, Sequence[tuple[_Patterns, str]]]
#: Levels: whom a policy is about.
EVERYONE, PLAN, TENANT = 0, 1, 2


@dataclass(frozen=True)
class Branch:
    """One policy at its place."""

    policy: QuotaPolicy
    settings: Mapping[str, Any]
    depth: int

    @property
    def covers(self) -> str:
        return covers_words(self.settings)

    @property
    def limit(self) -> str:
        return limit_words(self.settings)

    @property
    def together(self) -> bool:
        return together(self.settings)


def in_order(rows: Iterable[QuotaPolicy], plans: Mapping[str, str]) -> list[Branch]:
    """All of ``rows``; ``plans`` are those of tenants. What stands beneath another covers a part of it."""
    policies = sorted(((row, snapshot(row)) for row in rows), key=lambda each: (_level(each[1]), each[0].name))
    wide = _wide(policies)
    children: dict[str, list[tuple[QuotaPolicy, dict[str, Any]]]] = {}
    for row, settings in policies:
        children.setdefault(_parent(settings, wide, plans), []).append((row, settings))
    found: list[Branch] = []

    def take(parent: str, depth: int) -> None:
        for row, settings in children.get(parent, ()):
            found.append(Branch(row, settings, depth))
            take(row.name, depth + 1)

    take("", 0)
    return found


def _wide(policies: Iterable[tuple[QuotaPolicy, Mapping[str, Any]]]) -> _Wide:
    """Of those that others may stand beneath one for each pair of patterns, the longer patterns first, by the plan that
    they are for: thousands of policies have few pairs.
    """
    found: dict[str, dict[_Patterns, str]] = {}
    for row, settings in policies:
        if _level(settings) < TENANT:
            named = found.setdefault(settings["plan"], {})
            patterns = settings["service"], settings["resource"]
            named[patterns] = max(row.name, named.get(patterns, ""))
    return {
        plan: sorted(named.items(), key=lambda each: (_letters(each[0]), each[1]), reverse=True)
        for plan, named in found.items()
    }


def _level(settings: Mapping[str, Any]) -> int:
    if settings["tenant"] != "*":
        return TENANT
    return PLAN if settings["plan"] else EVERYONE


def _parent(settings: Mapping[str, Any], wide: _Wide, plans: Mapping[str, str]) -> str:
    """The nearest policy of a wider level that covers all this one does; the empty name when there is none."""
    level = _level(settings)
    plan = settings["plan"] or plans.get(settings["tenant"], "")
    # The nearest level first, then the longer patterns.
    nearer = wide.get(plan, []) if plan and level == TENANT else []
    further = wide.get("", []) if level > EVERYONE else []
    return next((name for patterns, name in (*nearer, *further) if _covers(patterns, settings)), "")


def _covers(patterns: _Patterns, narrow: Mapping[str, Any]) -> bool:
    service, resource = patterns
    return fnmatchcase(narrow["service"], service) and fnmatchcase(narrow["resource"], resource)


def _letters(patterns: _Patterns) -> int:
    return sum(letter not in "*?" for letter in "".join(patterns))
