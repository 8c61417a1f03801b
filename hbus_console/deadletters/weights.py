"""What a letter weighs where as many are read at once as there is room for."""

from __future__ import annotations

#: A body weighs so many bytes, or twice as many, and so on: where a page or a sample ends is seen by whoever may not be
#: told the size of what is masked in it.
STEP = 16 << 10


def weight(size: int) -> int:
    """Of a body of so many bytes."""
    return -(-size // STEP) * STEP
