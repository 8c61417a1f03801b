"""Which topics an actor's scopes let through, as a database filter."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from hbus_console.accounts.permissions import GLOBAL


def topic_filter(scopes: Sequence[str], field: str = "topic") -> Q:
    """Rows whose ``field`` lies in one of ``scopes`` (``*``, ``booking.*`` or an exact name); none for no scope."""
    if GLOBAL in scopes:
        return Q()
    wanted = Q(pk__in=[])
    for scope in scopes:
        if scope.endswith(".*"):
            wanted |= Q(**{field: scope[:-2]}) | Q(**{f"{field}__startswith": scope[:-1]})
        else:
            wanted |= Q(**{field: scope})
    return wanted
