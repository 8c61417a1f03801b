"""How deep a payload may nest, so that no walk over one runs out of stack."""

from __future__ import annotations

from itertools import accumulate

#: How many lists and objects may lie in one another.
DEEPEST = 100

_STEP = [1 if code in b"[{" else -1 for code in range(256)]
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")


def too_deep(text: bytes) -> bool:
    """Whether the JSON ``text`` nests deeper than :data:`DEEPEST`. Takes no stack, and about as long as reading it."""
    # Without what is escaped, every second piece between quotes is the text of a string.
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(plain.split(b'"')[::2]).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > DEEPEST
