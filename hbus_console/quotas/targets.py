"""Policies, and the nodes that hold to them, as alert rules watch them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.clock import SystemClock
from engine.core.subject import Subject
from hbus_console.alerts.targets import Target, TargetKind, Way
from hbus_console.quotas.models import POLICY, QuotaNodeReport, QuotaPolicy, policy_subject
from hbus_console.quotas.reports import GONE_AFTER_MS
from hbus_console.registry.pages import page
from hbus_console.subjects import readable


def node_subject(name: str) -> Subject:
    """A process that holds to limits. Processes name themselves."""
    return readable("quota-node", "", name)


def _policies() -> Iterable[Target]:
    for name, team, at in QuotaPolicy.objects.order_by().values_list("name", "team_id", "created_at"):
        yield Target(policy_subject(name), team, False, round(at.timestamp() * 1000))


def _nodes() -> Iterable[Target]:
    since_ms = SystemClock().now_ms() - GONE_AFTER_MS
    for name in QuotaNodeReport.objects.filter(at_ms__gt=since_ms).values_list("node", flat=True):
        yield Target(node_subject(name), None, False, 0)


_CLUSTER = Way(("cluster", "store"), "Open the cluster", lambda _: page("cluster:overview"))
POLICIES = TargetKind(
    POLICY,
    _policies,
    example="partners",
    example_pattern="partner-*",
    ways=(Way(("limit", "policy", "plan"), "Open its settings", lambda it: page("quotas:settings", it.name)),),
)
NODES = TargetKind("quota-node", _nodes, example="web-1", example_pattern="web-*", ways=(_CLUSTER,))
