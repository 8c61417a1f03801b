"""Types that msgspec reads, prepared by one thread at a time.

On a type's first use msgspec notes on the type what it has found out about it, and does so before the note is whole: of
two threads that use a type first at the same time, one may read the half note, which ends the process with a
segmentation fault (0.22; not an exception that anybody could catch).
"""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_preparing = Lock()
_done: set[Any] = set()


def prepared(kind: T) -> T:
    """``kind``, which any number of threads may now decode or convert into: whoever names a type to msgspec does it so.

    Thread-safe. Raises what ``msgspec.json.Decoder`` raises for a type that JSON cannot be read into.
    """
    if kind not in _done:
        with _preparing:
            msgspec.json.Decoder(kind)
            _done.add(kind)
    return kind
