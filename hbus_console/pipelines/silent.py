"""Transports that just did not answer: whoever asks for many topics waits for each of these once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from engine.bus import Rereads
from engine.core.errors import Unavailable
from hbus_console.cluster import probes
from hbus_console.wiring import bus, store

#: For so long one is not asked again: what asks for many topics goes through them in less.
_QUIET_S = 1.0


class SilentCarriers:
    """Not thread-safe."""

    def __init__(self, *, in_haste: bool = False) -> None:
        #: A page does not wait for a hung store as long as work may.
        self._in_haste = in_haste
        self._until_s: dict[str, float] = {}

    def __contains__(self, carrier: str) -> bool:
        """Whether it is not to be asked now. Raises ``ConfigurationError`` for one that is not there."""
        if time.monotonic() < self._until_s.get(carrier, 0.0):
            return True
        return self._in_haste and _is_on_the_store(carrier) and bool(probes.obstacle())

    @contextmanager
    def asking(self, carrier: str) -> Iterator[None]:
        """Remembers that it did not answer."""
        try:
            yield
        except Unavailable:
            self._until_s[carrier] = time.monotonic() + _QUIET_S
            raise


def _is_on_the_store(carrier: str) -> bool:
    """What keeps its messages in the store that pages ask."""
    return isinstance(bus.admin(carrier), Rereads) and bus.config(carrier).url == store.url()
