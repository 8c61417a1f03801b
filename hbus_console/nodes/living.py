"""Who stamps in this installation, for what has Django's settings; the supervisor has none and asks by itself."""

from __future__ import annotations

from django.conf import settings

from engine.core.clock import SystemClock
from hbus_console.nodes.stamps import Node, read_nodes
from hbus_console.wiring import store


def nodes() -> list[Node]:
    """The installation's nodes; see :func:`~.stamps.read_nodes`."""
    return read_nodes(store.client(), settings.HBUS_PREFIX, SystemClock())
