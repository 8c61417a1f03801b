"""All policies with what they do now, who is refused, and which node holds what."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.core.errors import BadInput, NotThere
from engine.quota import Period
from engine.quota.terms import Name
from engine.quota.uses import Key
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import GLOBAL, SOMEWHERE, allows, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.quotas import door
from hbus_console.quotas.allocating import SeatsNow, at_work, buckets
from hbus_console.quotas.feature import QUOTA_EDIT
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.overrides import override_at, read_overrides
from hbus_console.quotas.services.books import newest_book
from hbus_console.quotas.sight import places_seen, plans_known, policy_seen, sees
from hbus_console.quotas.standing import LATE_MINUTES, MOST_LIMITERS, PolicyNow, QuotasNow
from hbus_console.quotas.sums import reach
from hbus_console.quotas.tree import Branch, in_order
from hbus_console.quotas.use_chart import chart_url, shortened, use_chart, used
from hbus_console.quotas.wording import amount_words, together
from hbus_console.teams.services import team_names
from hbus_console.ui.pages import clock
from hbus_console.ui.rows import NOBODY, Filters, owned, page_of, read_filters
from hbus_console.ui.timerange import read_range, time_range

#: Who is refused, and what nodes hold, are listed so far.
MOST_THROTTLED, MOST_HOLDINGS = 8, 60


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def quotas(request: HttpRequest) -> HttpResponse:
    who, now_ms, wanted = actor(request), clock.now_ms(), read_filters(Filters, request.GET)
    stand = QuotasNow(now_ms, visible_scopes(who, VIEW), newest_book())
    places = places_seen(who)
    order = in_order(places, plans_known(who, stand.book.plans) if stand.book else {})
    names = list(order)
    if wanted.narrowed:
        fit = owned(QuotaPolicy.objects.filter(name__icontains=wanted.q), wanted.owner)
        fitting = set(fit.values_list("name", flat=True))
        names = [name for name in names if name in fitting]
    page, more = page_of(names, names, request.GET.get("cursor", ""))
    name, limiter, unknown = _chosen(request, stand, names, order)
    # Of thousands those that are shown; one may have gone meanwhile.
    rows = QuotaPolicy.objects.select_related("team").in_bulk({*page, name}, field_name="name")
    branches = {each: Branch(row, order[each]) for each, row in rows.items()}
    chosen = branches.get(name)
    shared = chosen is not None and together(chosen.settings)
    keys = stand.by_policy[chosen.policy.name].limiters if chosen and shared and not _named(request) else [limiter]
    holdings = stand.holdings(key for key in keys if key)
    drawn = _of_chart(request, shared, limiter)
    kept = reach(now_ms)
    asked, admitted = used(who, time_range(request), chosen.policy, drawn, kept) if chosen else (0, 0)
    links = stand.links(limiter, chosen.policy.name if shared and not drawn else "") if chosen and limiter else ()
    context: dict[str, Any] = {
        "nav": "quotas",
        "any": bool(places),
        "number": len(places),
        "rows": [_row(branches[each], stand, chosen, now_ms) for each in page if each in branches],
        "next_cursor": more,
        "wanted": wanted,
        "teams": team_names(),
        "nobody": NOBODY,
        "stand": stand,
        "silent": len(stand.nodes) - len(stand.told),
        "cut_off": [node for node in stand.told if node.cut_off],
        "behind": [node for node in stand.told if not node.cut_off and node.report.version < stand.version],
        "throttled": stand.throttled(MOST_THROTTLED),
        "late_minutes": LATE_MINUTES,
        "most": MOST_LIMITERS,
        "cut": len(stand.late) == MOST_LIMITERS,
        "chosen": chosen,
        "unknown": unknown,
        "limiter": drawn,
        "chart_url": chart_url(chosen.policy.name, drawn) if chosen else "",
        "holdings": holdings[:MOST_HOLDINGS],
        "more_holdings": max(0, len(holdings) - MOST_HOLDINGS),
        "limited": bool(links) and door.kept(),
        "buckets": buckets(links, stand.scopes),
        "of_seats": chosen is not None and chosen.policy.period == Period.AT_ONCE,
        "seats": _seats(stand, chosen),
        "idle": len(stand.told) - len({each.node.name for each in holdings}),
        "asked": asked,
        "shortened": shortened(time_range(request), kept),
        "admitted_share": 100 * admitted / asked if asked else None,
        "sees_all": GLOBAL in stand.scopes,
        "may_edit": allows(who, QUOTA_EDIT),
    }
    return render(request, "quotas/list.html", context)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def chart(request: HttpRequest) -> JsonResponse:
    """The data of the chart of ``?policy=``, or of one limiter of it; and the page's time range."""
    name = request.GET.get("policy", "")
    if not name:
        raise BadInput("A chart needs a policy.", remedy="Give its name as policy.", field="policy")
    who, kept = actor(request), reach(clock.now_ms())
    return JsonResponse(use_chart(who, read_range(request, clock), policy_seen(who, name), _named(request), kept))


def _seats(stand: QuotasNow, chosen: Branch | None) -> list[SeatsNow] | None:
    """Who is at work under a policy that says how many may at once."""
    if chosen is None or stand.book is None or chosen.policy.period != Period.AT_ONCE:
        return None
    return at_work(stand.book, dict.fromkeys([*stand.late, *stand.rates]), chosen.policy.name)


def _named(request: HttpRequest) -> Key | None:
    """The limiter in the address. Raises ``BadInput`` for what can be none."""
    if not request.GET.get("service"):
        return None
    service, resource, tenant = (request.GET.get(part, "") for part in ("service", "resource", "tenant"))
    Name(service, resource, tenant)
    return service, resource, tenant


def _chosen(
    request: HttpRequest, stand: QuotasNow, names: Sequence[str], every: Container[str]
) -> tuple[str, Key | None, str]:
    """The policy whose chart is drawn and the limiter whose permits are told: those in the address, or else those that
    have most to tell; no name where there is none. And the policy in the address where there is none of that name
    among ``every``.
    """
    named, name = _named(request), request.GET.get("policy", "")
    if named and not sees(stand.scopes, *named[:2]):
        raise NotThere(
            f"There is no limit of {named[0]} for {named[1]} in your scope.",
            remedy="Choose one of the list.",
            field="resource",
        )
    unknown = "" if name in every else name
    if named and not name:
        name = next(iter(stand.policies_of(named)), "")
    if name not in names:
        known = stand.by_policy
        nothing = PolicyNow()

        def busy(policy: str) -> tuple[int, float, int]:
            now = known.get(policy, nothing)
            return now.refused, now.admitted_s, len(now.limiters)

        name = max(names, key=busy, default="")
    return name, (named or stand.busiest(name)) if name else None, unknown


def _of_chart(request: HttpRequest, shared: bool, limiter: Key | None) -> Key | None:
    """What the chart draws: of a limit that all share, all of them, unless one is named."""
    return _named(request) if shared else limiter


def _row(branch: Branch, stand: QuotasNow, chosen: Branch | None, now_ms: int) -> dict[str, Any]:
    settings = branch.settings
    override = override_at(read_overrides(settings["overrides"], settings["zone"]), now_ms)
    holds = override and amount_words(
        override.limit, override.burst_of(settings["limit"], settings["burst"]), settings["period"]
    )
    return {
        "branch": branch,
        "indent": min(branch.depth, 3),
        "now": stand.by_policy.get(branch.policy.name),
        "override": override,
        "holds": holds,
        "chosen": chosen is branch,
    }
