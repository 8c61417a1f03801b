"""What moves: ``nodes`` with every heartbeat, ``alive`` as somebody falls silent or is back, ``roles`` with how the
roles stand, ``store`` as it goes and comes back.

Nothing is as a reload would show it while the store is away: each look at it may find it back.
"""

from __future__ import annotations

from hbus_console.access.permissions import GLOBAL
from hbus_console.cluster import probes, services
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The processes of the installation; nobody's scopes hide them."""
    store = once_a_poll(probes.store_state)
    # What does not answer is not asked and waited for again.
    found, error = ([], store.error) if store.error else once_a_poll(services.living)
    databases = once_a_poll(probes.database_states)
    if GLOBAL not in scopes:
        # Nor is it told when an amount changes that is not told.
        store, databases = store.without_amounts(), [each.without_size() for each in databases]
    roles = services.roles(found, store, databases, scopes)
    stamps = tuple((node.name, node.silent, node.stamp_ms) for node in found)
    alive = frozenset(node.name for node in found if not node.silent)
    marks = {"nodes": (stamps, error), "alive": (alive, error), "roles": tuple(roles), "store": bool(store.error)}
    return LiveCells(stale=store.away if store.error else "", marks=marks)
