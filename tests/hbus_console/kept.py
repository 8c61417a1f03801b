"""The keeper, as the database knows it: until when it has booked and taken over what there was."""

from __future__ import annotations

from hbus_console.evidence import freshness


def kept(of_ms: int, *names: str) -> None:
    """All that happened before is booked; with names only the evidence of these."""
    for name in names or (freshness.FACTS, freshness.DEAD_LETTERS):
        freshness.note(name, of_ms)
