"""What the parts of a slot are called where people read."""

from __future__ import annotations

from engine.cron.slots.parts import node_of, shard_of


def part_words(part: str) -> str:
    """``shard 3 of 8``, ``on web-1``; empty for the whole."""
    shard = shard_of(part)
    if shard is not None:
        return f"shard {shard.number} of {shard.of}"
    return f"on {node_of(part)}" if part else ""
