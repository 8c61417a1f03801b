"""What a process's limiters admitted and refused since it was last told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from engine.core.facts import FactBatch
from engine.quota.facts import use_fact
from engine.quota.terms import Name

#: Service, resource and tenant.
Key = tuple[str, str, str]
#: The kinds of facts, in the order of the counts.
_KINDS = ("quota_admitted", "quota_delayed", "quota_refused", "quota_shadowed")


class Used(NamedTuple):
    """Tokens of one limiter. Those that waited, and those that a shadow limit would have refused, were admitted."""

    admitted: int = 0
    delayed: int = 0
    refused: int = 0
    shadowed: int = 0


class Uses:
    """Of all limiters of a process. Thread-safe; what was not used since the last telling takes no room."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Key, list[int]] = {}

    def count(self, key: Key, admitted: int = 0, delayed: int = 0, refused: int = 0, shadowed: int = 0) -> None:
        """``admitted`` is below 0 for what is taken back; of what was told already nothing is."""
        with self._lock:
            counts = self._counts.get(key)
            if counts is None:
                counts = self._counts[key] = [0, 0, 0, 0]
            counts[0] += admitted
            counts[1] += delayed
            counts[2] += refused
            counts[3] += shadowed

    def admitted(self, key: Key, n: int) -> None:
        """As :meth:`count`, of what was admitted at once: nearly all that is."""
        with self._lock:
            try:
                self._counts[key][0] += n
            except KeyError:
                self._counts[key] = [n, 0, 0, 0]

    def __bool__(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._counts)

    def drain(self) -> dict[Key, Used]:
        """What came since the last call."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return {key: Used(*(max(0, each) for each in found)) for key, found in counts.items()}


def facts_of(uses: Mapping[Key, Used], policies: Mapping[Key, str], at_ms: int, node: str) -> Iterator[FactBatch]:
    """What was drained, as facts; with the narrowest rule of each limiter that is held to any."""
    for key, used in uses.items():
        name = Name(*key)
        for kind, amount in zip(_KINDS, used, strict=True):
            if amount:
                yield use_fact(kind, name, amount, at_ms, node, policy=policies.get(key, ""))
