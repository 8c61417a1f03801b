"""Scopes as a filter on the ledger's large tables."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from hbus_console.access.permissions import GLOBAL
from hbus_console.access.scopes import scopes_q
from hbus_console.topics.models import Topic


def topic_names(scopes: Sequence[str]) -> list[str] | None:
    """The topics in ``scopes``; ``None`` for all of them.

    A namespace is turned into names, which an index can find; topics that were deleted are seen by ``*`` alone.
    """
    if GLOBAL in scopes:
        return None
    return sorted(Topic.objects.filter(scopes_q(tuple(scopes), "name")).values_list("name", flat=True))


def topic_filter(scopes: Sequence[str], field: str = "topic") -> Q:
    """Rows whose ``field`` names a topic in ``scopes``; none for no scope."""
    names = topic_names(scopes)
    return Q() if names is None else Q(**{f"{field}__in": names})
