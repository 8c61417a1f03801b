"""Before and after of entries as they are shown: what a feature hides by now is hidden in old entries too.

An entry cannot be changed, and what may be seen of its subject can: so it is hidden whenever it is read. What the
hashes cover stays as it is, and :mod:`~.verify` reads that.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

from hbus_console.audit.models import AuditEntry
from hbus_console.registry.loading import features, resolve
from hbus_console.registry.names import AUDIT_SIDES


@dataclass(frozen=True)
class Sides:
    """What a feature shows of an entry's before and after."""

    before: Any
    after: Any


def shown(entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """``entries`` as they may be shown, in their order: copies, where a feature has a say. Each feature is asked once
    for all of them."""
    known = _declared()
    asked: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        # What stands in a row that somebody wrote by hand need not be a text.
        if isinstance(entry.action, str) and (dotted := known.get(entry.action)):
            asked.setdefault(dotted, []).append(place)
    answer = list(entries)
    for dotted, places in asked.items():
        said: list[Sides] = resolve(dotted)([entries[place] for place in places])
        for place, sides in zip(places, said, strict=True):
            answer[place] = copy(entries[place])
            answer[place].before, answer[place].after = sides.before, sides.after
    return answer


def kept_from_search() -> tuple[str, ...]:
    """The actions whose before and after no search may look into: what matched would tell what is not shown."""
    return tuple(sorted(_declared()))


@cache
def _declared() -> dict[str, str]:
    return AUDIT_SIDES.by_name(features())
