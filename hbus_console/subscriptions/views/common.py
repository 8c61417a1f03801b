"""What the pages of subscriptions share."""

from __future__ import annotations

#: What a failed message does to those of its key behind it, in words.
FAILED_HEADS = {
    "block": "its key waits, and goes on once it is dead",
    "park": "its key waits, and is set aside in the end",
    "pass": "its key goes on at once, it comes later",
}
