"""What alert rules may watch of quotas: a node that is cut off, and a policy that refuses much of what is asked."""

from __future__ import annotations

from collections.abc import Mapping

from engine.quota.terms import Name
from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round
from hbus_console.evidence.totals import total
from hbus_console.quotas.models import QuotaUse
from hbus_console.quotas.services.books import newest_book
from hbus_console.quotas.services.rules import policy_of
from hbus_console.quotas.standing import nodes_now
from hbus_console.quotas.targets import NODES, POLICIES, node_subject

#: Of fewer tokens a share says nothing.
LEAST_ASKED = 20
#: Limiters that are added up, those that refused most; to find what each is held to takes some hundredths of a
#: millisecond.
MOST_ALERTED = 50_000


def _cut_off(case: Case) -> float | None:
    """Seconds; of a node that is silent nobody knows."""
    return case.round.once(_away).get(case.target.subject.name, -1.0)


def _away(now: Round) -> Mapping[str, float | None]:
    return {
        node_subject(node.name).name: None if node.silent else (now.now_ms - node.report.away_ms) / 1000
        for node in nodes_now(now.now_ms)
        if node.silent or node.report.away_ms
    }


def _refused_share(case: Case) -> float | None:
    asked, refused = case.round.once(_asked, case.since_ms).get(case.target.subject.name, (0, 0))
    return 100 * refused / asked if asked >= LEAST_ASKED else -1.0


def _asked(now: Round, since_ms: int) -> Mapping[str, tuple[int, int]]:
    """By policy what was asked of those that it is the nearest for, and how much of it was refused."""
    book = newest_book()
    if book is None:
        return {}
    rows = (
        QuotaUse.objects.filter(minute__gt=since_ms // 1000 - 60)
        .values_list("service", "resource", "tenant")
        .annotate(a=total("admitted"), r=total("refused"))
        .order_by("-r", "-a")
    )
    found: dict[str, tuple[int, int]] = {}
    for service, resource, tenant, admitted, refused in rows[:MOST_ALERTED]:
        if rules := book.rules_of(Name(service, resource, tenant)):
            name = policy_of(rules[0].id)
            asked, lost = found.get(name, (0, 0))
            found[name] = asked + admitted + refused, lost + refused
    return found


KINDS = (
    AlertKind(
        name="quota_degraded",
        title="Quota degraded",
        unit="seconds",
        says="is cut off from the quota control plane for",
        help="How long a node has not reached the store that sells tokens. Its limits hold meanwhile as each"
        " policy says.",
        targets=NODES,
        measure=_cut_off,
        usual=30,
        absent="it is reached",
        place=93,
        defaults=(
            DefaultRule(
                "A quota node is cut off",
                30,
                "Is the store up, and does that node reach it? The cluster page says so.",
            ),
        ),
    ),
    AlertKind(
        name="quota_refused_share",
        title="Quota refused share",
        unit="percent",
        says="refuses",
        help="How much of what is asked of a policy within the window is refused, in percent."
        f" Of fewer than {LEAST_ASKED} tokens nothing is said.",
        targets=POLICIES,
        measure=_refused_share,
        windowed=True,
        usual=20,
        absent="hardly anything is asked",
        place=94,
        defaults=(
            DefaultRule(
                "A limit refuses much",
                20,
                "Who is refused stands on the page of quotas. Ask them to slow down, or raise the limit of the policy.",
                severity="info",
                window_s=600,
                for_s=120,
            ),
        ),
    ),
)
