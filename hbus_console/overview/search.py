"""What the search box finds: what each feature finds."""

from __future__ import annotations

from hbus_console.access.permissions import Actor
from hbus_console.registry.loading import features, resolve
from hbus_console.ui.finding import Group


def find(who: Actor, text: str) -> list[Group]:
    """Everything ``who`` may see that ``text`` leads to; groups without a hit are left out."""
    text = text.strip()
    if not text:
        return []
    finders = [resolve(dotted) for feature in features() for dotted in feature.search]
    return [group for find_in in finders for group in find_in(who, text) if group.hits]
