"""Who sees what of limits.

What a limit is for is a namespace, and lies in the scopes of who may see that: a topic, a job, or whatever a service
outside calls its own. Requests to hbus itself have no namespace; who asked how much of them is seen by who sees
everything.

A policy is seen by whoever may meet it: it covers something in their scopes, or requests, or everything. What it says
in its other parts, such as whom it is about, is seen with it. Of plans one sees one's own, and everybody's who gives
them or sees everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any

from django.db.models import Q, QuerySet

from engine.quota.rule import SIGNS
from engine.quota.terms import person_of
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import GLOBAL, Actor, allows, covers, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.trail import visible
from hbus_console.quotas.feature import QUOTA_PLAN
from hbus_console.quotas.models import QuotaPolicy, TenantPlan
from hbus_console.quotas.services import policies
from hbus_console.quotas.services.differences import Difference
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.tree import Place

#: Services of hbus itself: their tokens are taken by what is done, and by nobody beside.
OF_HBUS = ("api", "console", "publish", "consume", "jobs")
#: Those of them whose resources are no namespaces.
OF_REQUESTS = ("api", "console")
#: The parts of a pattern: a set of letters, or one letter or sign.
_SIGN = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)


def sees(scopes: tuple[str, ...], service: str, resource: str) -> bool:
    """Whether a limiter of that name lies in ``scopes``."""
    return GLOBAL in scopes or (service not in OF_REQUESTS and any(covers(scope, resource) for scope in scopes))


def uses_q(scopes: tuple[str, ...]) -> Q:
    """The filter that leaves the uses in ``scopes``."""
    if GLOBAL in scopes:
        return Q()
    return ~Q(service__in=OF_REQUESTS) & scopes_q(scopes, "resource")


def meets(scopes: tuple[str, ...], settings: Mapping[str, Any]) -> bool:
    """Whether a policy of these ``settings`` can be about something in ``scopes``."""
    return (
        GLOBAL in scopes
        or settings["service"] in OF_REQUESTS
        or any(_overlap(scope, settings["resource"]) for scope in scopes)
    )


def whole_of(covered: Iterable[tuple[str, str]]) -> str:
    """Who sees the whole of this (``hotels.rooms``, ``hotels.*``, ``*``: everything) sees all uses of policies about
    these services and resources."""
    places = {_place_of(service, resource) for service, resource in covered}
    if len(places) == 1:
        return places.pop()
    # A place inside another is of it: what all have in common holds them, dot by dot.
    parts = [place.removesuffix(".*").split(".") for place in places]
    common = [same[0] for same in takewhile(lambda each: len(set(each)) == 1, zip(*parts, strict=False))]
    return ".".join([*common, "*"])


def _place_of(service: str, resource: str) -> str:
    """Requests have no namespace: of a policy for whatever service none of theirs has a resource that begins as one."""
    if service in OF_REQUESTS:
        return GLOBAL
    if not SIGNS & set(resource):
        return resource
    letters = "".join(takewhile(lambda letter: letter not in SIGNS, resource))
    namespace, dot, _ = letters.rpartition(".")
    return f"{namespace}.*" if dot else GLOBAL


def policies_seen(who: Actor) -> QuerySet[QuotaPolicy]:
    scopes, rows = visible_scopes(who, VIEW), QuotaPolicy.objects.select_related("team")
    if GLOBAL in scopes:
        return rows
    found = rows.values("name", "service", "resource")
    return rows.filter(name__in=[each["name"] for each in found if meets(scopes, each)])


def places_seen(who: Actor) -> list[Place]:
    """Of the same, as much as says where they stand: of thousands of policies a page lists some. One query."""
    scopes = visible_scopes(who, VIEW)
    found = QuotaPolicy.objects.values_list(*Place._fields)
    return [place for place in map(Place._make, found) if meets(scopes, place._asdict())]


def policy_seen(who: Actor, name: str) -> QuotaPolicy:
    """Raises :class:`NotThere`, as for one that there is not."""
    row = policies.policy(name)
    if not meets(visible_scopes(who, VIEW), snapshot(row)):
        raise policies.missing(name)
    return row


def plans_seen(who: Actor) -> QuerySet[TenantPlan]:
    """The plans that hold now."""
    rows = TenantPlan.objects.filter(until__isnull=True).exclude(plan="")
    return rows if sees_tenants(who) else rows.filter(tenant__in=(who.name, person_of(who.name)))


def plans_known(who: Actor, plans: Mapping[str, str]) -> Mapping[str, str]:
    """Of the plans by tenant those that ``who`` sees."""
    if sees_tenants(who):
        return plans
    return {name: plans[name] for name in (who.name, person_of(who.name)) if name in plans}


def sees_tenants(who: Actor) -> bool:
    """Whether everybody's plan."""
    return sees_everything(who) or allows(who, QUOTA_PLAN)


def sees_everything(who: Actor) -> bool:
    """Whether all policies and all plans."""
    return GLOBAL in visible_scopes(who, VIEW)


def entries_seen(who: Actor, seqs: list[int]) -> dict[int, AuditEntry]:
    """Of these entries of the audit log those that ``who`` may read there, by their numbers."""
    return visible(who).in_bulk(seqs, field_name="seq") if visible_scopes(who, AUDIT_READ) else {}


def difference_seen(who: Actor, found: Difference) -> Difference:
    """As much of what differs between two books."""
    scopes = visible_scopes(who, VIEW)
    everybody, mine = sees_tenants(who), (who.name, person_of(who.name))
    met = {name: (_if_met(scopes, was), _if_met(scopes, now)) for name, (was, now) in found.policies.items()}
    return Difference(
        {name: both for name, both in met.items() if any(both)},
        {tenant: both for tenant, both in found.plans.items() if everybody or tenant in mine},
    )


def _if_met(scopes: tuple[str, ...], settings: dict[str, Any] | None) -> dict[str, Any] | None:
    """Of a time when it was about something else its settings are for who saw it then."""
    return settings if settings is not None and meets(scopes, settings) else None


def _overlap(scope: str, pattern: str) -> bool:
    """Whether some name lies in the scope and fits the pattern."""
    if not scope.endswith(".*"):
        return fnmatchcase(scope, pattern)
    return fnmatchcase(scope[:-2], pattern) or _may_go_on(scope[:-1], pattern)


def _may_go_on(begins: str, pattern: str) -> bool:
    """Whether some name that begins so, and goes on, fits the pattern. Up to its first star each sign stands for one
    letter; a star fits whatever comes, and of what is left of a pattern some name can be made.
    """
    signs = _SIGN.findall(pattern)
    for letter, sign in zip(begins, signs, strict=False):
        if sign == "*":
            return True
        if not fnmatchcase(letter, sign):
            return False
    return len(signs) > len(begins)
