"""What moves: ``dead`` (``/menu`` as the menu says it, with ``/note``) by itself, and the column ``dead`` of
``topic/NAME``.
"""

from __future__ import annotations

from collections.abc import Mapping

from hbus_console.deadletters.counting import by_topic, tally, where
from hbus_console.ui import formats
from hbus_console.ui.live import LiveCells


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The dead letters that wait for a decision in ``scopes``."""
    return told(by_topic(scopes))


def told(dead: Mapping[str, int]) -> LiveCells:
    """Counts by topic in words."""
    total = sum(dead.values())
    return LiveCells(
        texts={"dead": formats.num(total), "dead/menu": tally(total), "dead/note": where(dead)},
        rows={f"topic/{topic}": {"dead": formats.num(count)} for topic, count in dead.items()},
        blank={"topic": {"dead": formats.num(0)}},
    )
