"""What the keeper does for dead letters."""

from __future__ import annotations

from hbus_console.deadletters.collector import DeadLetterCollector
from hbus_console.wiring import bus


def dead_letter_collector() -> DeadLetterCollector:
    return DeadLetterCollector(bus.admin)
