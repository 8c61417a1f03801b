"""What of the limits needs a person: a node that is cut off, one that goes by old policies, a policy without owner."""

from __future__ import annotations

from django.urls import reverse

from hbus_console.access.permissions import GLOBAL
from hbus_console.alerts.concerns import firing_on
from hbus_console.quotas.models import QuotaBook, QuotaPolicy
from hbus_console.quotas.standing import NodeNow, nodes_now
from hbus_console.quotas.targets import node_subject
from hbus_console.ui.concern import MOST_OF_A_KIND, Concern, Incident, Look, at, spell
from hbus_console.ui.formats import duration, epoch_ms, num

#: Nodes go by a new book within a second; one that has not after so long will not by itself.
BEHIND_MS = 10_000


def concerns(look: Look) -> list[Concern]:
    """Of who sees everything alone: limits and nodes lie in nobody's namespace. Three queries."""
    if GLOBAL not in look.scopes:
        return []
    nodes = [node for node in nodes_now(look.now_ms) if not node.silent]
    return [
        *at(60, _cut_off(look, [node for node in nodes if node.cut_off])),
        *at(65, _behind(look, [node for node in nodes if not node.cut_off])),
        *at(95, _ownerless()),
    ]


def _cut_off(look: Look, nodes: list[NodeNow]) -> list[Concern]:
    page = reverse("quotas:list")
    # An alert that fires on it says since when, too.
    said = firing_on(look, "quota_degraded") if nodes else {}
    return spell(
        [node for node in nodes if node_subject(node.name) not in said],
        lambda node: Concern(
            "warn",
            f"{node.name} is cut off from the quota control plane",
            f"for {duration(node.away_s * 1_000_000)}; its limits hold meanwhile as each policy says",
            page,
            "Open quotas",
            incident=Incident(node_subject(node.name)),
        ),
        Concern("warn", "Further nodes are cut off from the quota control plane", "", page, "Open quotas"),
    )


def _behind(look: Look, nodes: list[NodeNow]) -> list[Concern]:
    newest = QuotaBook.objects.first()
    if newest is None or look.now_ms - epoch_ms(newest.made_at) <= BEHIND_MS:
        return []
    page = reverse("quotas:list")
    return spell(
        [node for node in nodes if node.report.version < newest.number],
        lambda node: Concern(
            "warn",
            f"{node.name} goes by old quota policies",
            f"version {num(node.report.version)} of {num(newest.number)}; the log of that process says why",
            page,
            "Open quotas",
        ),
        Concern("warn", "Further nodes go by old quota policies", "", page, "Open quotas"),
    )


def _ownerless() -> list[Concern]:
    names = list(QuotaPolicy.objects.filter(team=None).values_list("name", flat=True)[: MOST_OF_A_KIND + 1])
    return spell(
        names,
        lambda name: Concern(
            "warn",
            f"Quota policy {name} has no owner",
            "it holds all the same; nobody answers for it",
            reverse("quotas:settings", args=[name]),
            "Name an owner",
        ),
        Concern(
            "warn", "Further quota policies have no owner", "", f"{reverse('quotas:list')}?owner=-", "See policies"
        ),
    )
