"""Which targets a rule watches."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from hbus_console.access.permissions import covers
from hbus_console.alerts.kinds import kinds
from hbus_console.alerts.models import Rule
from hbus_console.alerts.targets import Target, Targets


def every_target() -> Targets:
    """All that rules of the installed kinds can watch, as it is now."""
    return Targets(kind.targets for kind in kinds().values())


def watched(rule: Rule, targets: Targets) -> Iterator[Target]:
    """What ``rule`` watches of them; nothing when its kind is not installed."""
    kind = kinds().get(rule.kind)
    if kind is None or rule.orphaned:
        return
    pattern = rule.pattern or "*"
    for target in targets.of(kind.targets):
        if rule.of_team and target.team_id != rule.team_id:
            continue
        if not covers(rule.scope, target.subject.namespace):
            continue
        if pattern == "*" or fnmatchcase(target.subject.name, pattern):
            yield target
