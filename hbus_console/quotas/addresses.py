"""Where the subjects of this feature are shown."""

from __future__ import annotations

from urllib.parse import urlencode

from engine.core.subject import Subject
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.registry.pages import page


def policy(subject: Subject) -> str:
    """The page of a policy."""
    return page("quotas:policy", subject.name)


def limiter(subject: Subject) -> str:
    """Who holds what for it. Of one outside every namespace the name does not tell its parts apart."""
    service, _, tenant = subject.name.partition(" ")
    if not subject.namespace:
        return page("quotas:list")
    query = urlencode({"service": service, "resource": subject.namespace, "tenant": tenant})
    return f"{page('quotas:list')}?{query}"


def tenant(subject: Subject) -> str:
    """Where its plan stands."""
    return f"{page('quotas:plans')}?{urlencode({'q': subject.name})}"


def book(subject: Subject) -> str:
    """The page of a version of all policies."""
    return page("quotas:book", subject.name)


def node(subject: Subject) -> str:
    """Nodes stand beside the policies."""
    return page("quotas:list")


def text(row: QuotaPolicy) -> str:
    """What a list of a team's policies calls one."""
    return row.name


def address(row: QuotaPolicy) -> str:
    """Its page."""
    return policy(row.subject)
