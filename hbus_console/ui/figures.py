"""A figure with its history, as pages head themselves with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One figure with its history. ``key`` is what live updates address."""

    key: str
    label: str
    value: str
    unit: str
    tone: str
    history: Sequence[float | None]
    note: str
    note_tone: str = ""
    url_name: str = ""
