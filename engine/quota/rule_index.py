"""Rules, found by what they are about: nobody looks at each of thousands for one limiter."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate

from engine.quota.rule import SIGNS, Rule, place_of
from engine.quota.terms import Name

#: The tenant and the service by name, ``None`` where a pattern says which; and the plan.
_Place = tuple[str | None, str | None, str]


@dataclass(slots=True)
class _Entry:
    #: Where it stands among all rules.
    at: int
    rule: Rule
    #: For what is left to be compared; ``None``: anything will do, or it was compared.
    tenant: re.Pattern[str] | None
    service: re.Pattern[str] | None
    resource: re.Pattern[str] | None

    def covers(self, name: Name) -> bool:
        rule = self.rule
        return (
            rule.shadow is name.shadow
            and (self.resource is None or self.resource.match(name.resource) is not None)
            and (self.tenant is None or self.tenant.match(rule.subject(name)) is not None)
            and (self.service is None or self.service.match(name.service) is not None)
            and (rule.sample == 1.0 or place_of(rule.subject(name)) < rule.sample)
        )


class RuleIndex:
    """Of rules that do not change. Thread-safe."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._places: dict[_Place, list[_Entry]] = {}
        for at, rule in enumerate(rules):
            tenant, service = _named(rule.tenant), _named(rule.service)
            entry = _Entry(
                at,
                rule,
                _compared(rule.tenant) if tenant is None else None,
                _compared(rule.service) if service is None else None,
                _compared(rule.resource),
            )
            self._places.setdefault((tenant, service, rule.plan), []).append(entry)

    def covering(self, name: Name, plan: str) -> list[Rule]:
        """What :meth:`Rule.covers` says of each, in their order."""
        found = [
            entry
            for tenant in dict.fromkeys((name.tenant, name.person, None))
            for service in (name.service, None)
            for of in (("", plan) if plan else ("",))
            for entry in self._places.get((tenant, service, of), ())
            if entry.covers(name)
        ]
        if len(found) > 1:
            found.sort(key=lambda entry: entry.at)
        return [entry.rule for entry in found]


def _named(pattern: str) -> str | None:
    return None if SIGNS & set(pattern) else pattern


def _compared(pattern: str) -> re.Pattern[str] | None:
    return None if pattern == "*" else re.compile(translate(pattern))
