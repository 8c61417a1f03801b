"""Who sees which uses of limits.

What a limit of messages or jobs is for is a namespace, and lies in the scopes of who may see that. Other services have
names of their own: what they are for is seen by who sees everything.
"""

from __future__ import annotations

from django.db.models import Q

from hbus_console.access.permissions import GLOBAL, covers
from hbus_console.access.scopes import scopes_q

#: Services whose resources are namespaces.
OF_NAMESPACES = ("publish", "consume", "jobs")


def sees(scopes: tuple[str, ...], service: str, resource: str) -> bool:
    """Whether a limiter of that name lies in ``scopes``."""
    return GLOBAL in scopes or (service in OF_NAMESPACES and any(covers(scope, resource) for scope in scopes))


def uses_q(scopes: tuple[str, ...]) -> Q:
    """The filter that leaves the uses in ``scopes``."""
    if GLOBAL in scopes:
        return Q()
    return Q(service__in=OF_NAMESPACES) & scopes_q(scopes, "resource")
