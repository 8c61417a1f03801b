"""One policy: what it says, what holds now and next, what it was before, and the acts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.drafts.setting import Choice
from hbus_console.quotas.feature import QUOTA_EDIT
from hbus_console.quotas.models import PolicyVersion, QuotaPolicy
from hbus_console.quotas.overrides import Override, read_overrides
from hbus_console.quotas.services import policies
from hbus_console.quotas.services.books import newest_book
from hbus_console.quotas.services.draft import AMOUNT, COVERS, SETTINGS, SHARING, snapshot
from hbus_console.quotas.services.kept_books import books_reach
from hbus_console.quotas.sight import entries_seen, meets, policy_seen
from hbus_console.quotas.standing import LATE_MINUTES, QuotasNow
from hbus_console.quotas.sums import reach
from hbus_console.quotas.use_chart import chart_url, shortened
from hbus_console.quotas.wording import amount_words, covers_words, limit_words, together
from hbus_console.ui import forms
from hbus_console.ui.pages import act, clock, refuse_act, tell_done
from hbus_console.ui.timerange import time_range

#: Versions that the page shows.
VERSIONS = 20


def frame(who: Actor, row: QuotaPolicy) -> dict[str, Any]:
    """What all pages of a policy show."""
    settings = snapshot(row)
    return {
        "nav": "quotas",
        "policy": row,
        "limit": limit_words(settings),
        "covers_words": covers_words(settings),
        "together": together(settings),
        "may_edit": allows(who, QUOTA_EDIT),
        "may_audit": allows(who, AUDIT_READ),
    }


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def detail(request: HttpRequest, policy: str) -> HttpResponse:
    who, now_ms = actor(request), clock.now_ms()
    row = policy_seen(who, policy)
    settings = snapshot(row)
    stand = QuotasNow(now_ms, visible_scopes(who, VIEW), newest_book())
    limiter = None if together(settings) else stand.busiest(policy)
    kept = PolicyVersion.objects.filter(policy=policy)[: VERSIONS + 1]
    # What it was while it was about something else is for who saw it then.
    found = [each for each in kept if meets(stand.scopes, each.settings)]
    entries = entries_seen(who, [each.audit_seq for each in found])
    overrides = [_override(each, settings, now_ms) for each in read_overrides(row.overrides, row.zone)]
    context = {
        **frame(who, row),
        "now": stand.by_policy.get(policy),
        "late_minutes": LATE_MINUTES,
        "limiter": limiter,
        "chart_url": chart_url(policy, limiter),
        "shortened": shortened(time_range(request), reach(now_ms)),
        "overrides": overrides,
        "holds": next((each for each in overrides if each["holds"]), None),
        "tried": amount_words(row.canary_limit, row.canary_burst, row.period) if row.canary_percent else "",
        "told": _told(settings),
        "versions": [
            {
                "version": each,
                "entry": entries.get(each.audit_seq),
                "differs": difference(found[place + 1].settings, each.settings) if place + 1 < len(found) else [],
                "first": each.number == 1,
                "sheet": f"restore-{each.number}",
                "title": f"Restore version {each.number}",
            }
            for place, each in enumerate(found[:VERSIONS])
        ],
        "more": bool(found) and found[:VERSIONS][-1].number > 1,
        "reach": books_reach(),
    }
    return render(request, "quotas/policy.html", context)


@require_POST
@console_view(VIEW, post=QUOTA_EDIT)
def restore(request: HttpRequest, policy: str, version: int) -> HttpResponse:
    def do() -> object:
        reason, known = request.POST.get("reason", ""), forms.revision(request.POST)
        return policies.restore_policy(actor(request), policy, version, reason, version=known)

    return act(request, f"{policy} is again what it was in version {version}.", do, "quotas:policy", policy)


@require_POST
@console_view(VIEW, post=QUOTA_EDIT)
def promote(request: HttpRequest, policy: str) -> HttpResponse:
    def do() -> object:
        reason, known = request.POST.get("reason", ""), forms.revision(request.POST)
        return policies.promote_trial(actor(request), policy, reason, version=known)

    return act(request, f"{policy} holds everybody to what was tried.", do, "quotas:policy", policy)


@require_POST
@console_view(VIEW, post=QUOTA_EDIT)
def delete(request: HttpRequest, policy: str) -> HttpResponse:
    form = request.POST
    try:
        policies.delete_policy(actor(request), policy, form.get("typed_name", ""), form.get("reason", ""))
    except BadInput as refused:
        return refuse_act(request, refused, "quotas:policy", policy)
    tell_done(request, f"{policy} is deleted. Nobody is held to it within a second; its versions are kept.")
    return redirect("quotas:list")


def difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, object, object]]:
    """The settings that differ: their labels, what they were, and what they are."""
    names = dict.fromkeys([*was, *now])
    return [
        (_label(name), _shown(name, was.get(name)), _shown(name, now.get(name)))
        for name in names
        if was.get(name) != now.get(name)
    ]


def _label(name: str) -> str:
    label = SETTINGS[name].label if name in SETTINGS.each else ""
    return label.removeprefix("… ") or name


def _shown(name: str, value: Any) -> object:
    if name not in SETTINGS.each:
        return value
    setting = SETTINGS[name]
    if isinstance(setting, Choice):
        return setting.words.get(str(value), value)
    return "nothing" if value in (None, "") else setting.shown(value)


def _told(settings: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Label and value of what it is set to, as the page lists it."""
    return [
        (each.label, _shown(each.name, settings[each.name]))
        for part in (COVERS, AMOUNT, SHARING)
        for each in SETTINGS.part(part)
        if each.name != "overrides" and not (each.rare and settings[each.name] == each.default)
        if settings[each.name] != "" or isinstance(each, Choice)
    ]


def _override(each: Override, settings: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    burst = each.burst_of(settings["limit"], settings["burst"])
    return {
        "it": each,
        "limit": amount_words(each.limit, burst, settings["period"]),
        "holds": each.holds(now_ms),
        "over": each.to_ms <= now_ms,
    }
