"""What moves: ``alerts``, how many wait for a person."""

from __future__ import annotations

from hbus_console.alerts import standing
from hbus_console.ui import formats
from hbus_console.ui.live import LiveCells


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The alerts that fire in ``scopes``."""
    return told(standing.count(scopes, now_ms))


def told(count: int) -> LiveCells:
    """A count in words."""
    return LiveCells(texts={"alerts": formats.num(count)})
