"""What moves: ``nodes`` with every heartbeat, ``roles`` with how the roles stand."""

from __future__ import annotations

from hbus_console.cluster import probes, services
from hbus_console.ui.live import LiveCells


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The processes of the installation; nobody's scopes hide them."""
    found, error = services.living()
    store = probes.store_state()
    roles = services.roles(found, store, probes.database_states(), scopes)
    stamps = tuple((node.name, node.silent, node.stamp_ms) for node in found)
    return LiveCells(marks={"nodes": (stamps, error), "roles": tuple(roles)})
