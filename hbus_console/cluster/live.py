"""What moves: ``nodes`` with every heartbeat, ``alive`` as somebody falls silent or is back, ``roles`` with how the
roles stand, ``store`` as it goes and comes back, ``spark`` as its fetch goes from one phase
to the next. The text ``spark`` says how far that is.

Nothing is as a reload would show it while the store is away: each look at it may find it back.
"""

from __future__ import annotations

from django.conf import settings

from hbus_console.access.permissions import GLOBAL
from hbus_console.cluster import probes, services
from hbus_console.spark_fetch import progress
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
    spark = once_a_poll(_spark)
    marks = {
        "nodes": (stamps, error),
        "alive": (alive, error),
        "roles": tuple(roles),
        "store": bool(store.error),
        "spark": spark.phase if spark else "",
    }
    texts = {"spark": spark.words if spark else ""}
    return LiveCells(texts=texts, stale=store.away if store.error else "", marks=marks)


def _spark() -> progress.Progress | None:
    return progress.read(settings.STATE)
