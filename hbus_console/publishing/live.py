"""What moves: ``due``, when messages that are due are refused, or wait for their store, or are published after all."""

from __future__ import annotations

from hbus_console.publishing.due import NotPublished, not_published
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """Those of the topics in ``scopes``."""
    found = once_a_poll(not_published) or NotPublished({}, {})
    seen = found.within(scopes)
    refused = tuple((topic, each.count, each.why) for topic, each in sorted(seen.refused.items()))
    return LiveCells(marks={"due": (refused, tuple(sorted(seen.behind.items())))})
