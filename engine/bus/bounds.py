"""How much is read of a topic at once, and what is said of an envelope that is too large: its limit, never its size.

Who reads a refusal is seldom who wrote the message: a dead letter that is redriven, a delayed message that is due, a
copy that a replay makes. Their payloads may be masked, and an exact size tells what is masked apart.
"""

from __future__ import annotations

#: The most bytes that one page of a topic is made of, and one answer with dead letters, who are written elsewhere; what
#: is larger by itself comes alone.
PAGE_BYTES = 32 << 20
DEAD_BYTES = 8 << 20


def too_large(limit: int) -> str:
    """Of an envelope that is larger than its transport takes."""
    return f"The envelope is too large: {limit:,} bytes are the limit."
