"""Where messages were replayed into, as one person may know it: a topic that they may not see has no name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, allows

#: Stands for all of these together.
ANOTHER = "another topic"


def copies_seen(who: Actor, into: Mapping[str, int]) -> Mapping[str, int]:
    """How many, by topic."""
    told: Counter[str] = Counter()
    for name, count in into.items():
        told[name if allows(who, VIEW, name) else ANOTHER] += count
    return dict(told)
