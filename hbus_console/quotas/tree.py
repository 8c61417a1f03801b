"""Policies in the order of their inheritance: everyone, then plans, then tenants, each beneath what it narrows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.wording import covers_words, limit_words, together

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
    children: dict[str, list[tuple[QuotaPolicy, dict[str, Any]]]] = {}
    for row, settings in policies:
        parent = _parent(row.name, settings, policies, plans)
        children.setdefault(parent, []).append((row, settings))
    found: list[Branch] = []

    def take(parent: str, depth: int) -> None:
        for row, settings in children.get(parent, ()):
            found.append(Branch(row, settings, depth))
            take(row.name, depth + 1)

    take("", 0)
    return found


def _level(settings: Mapping[str, Any]) -> int:
    if settings["tenant"] != "*":
        return TENANT
    return PLAN if settings["plan"] else EVERYONE


def _parent(
    name: str,
    settings: Mapping[str, Any],
    policies: list[tuple[QuotaPolicy, dict[str, Any]]],
    plans: Mapping[str, str],
) -> str:
    """The nearest policy of a wider level that covers all this one does; the empty name when there is none."""
    level = _level(settings)
    plan = settings["plan"] or plans.get(settings["tenant"], "")
    wider = [
        (row.name, other)
        for row, other in policies
        if _level(other) < level and other["plan"] in ("", plan) and _covers(other, settings)
    ]
    # The nearest level, then the longer patterns.
    best = max(wider, key=lambda each: (_level(each[1]), _letters(each[1]), each[0]), default=None)
    return best[0] if best else ""


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    return all(fnmatchcase(narrow[field], wide[field]) for field in ("service", "resource"))


def _letters(settings: Mapping[str, Any]) -> int:
    return sum(letter not in "*?" for letter in settings["service"] + settings["resource"])
