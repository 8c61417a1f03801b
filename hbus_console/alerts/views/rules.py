"""Rules: the list, the editor with its preview, and the test."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from engine.core.errors import BadInput
from engine.core.numbers import whole
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import GLOBAL, SOMEWHERE, Actor, allows, visible_scopes
from hbus_console.access.web import actor, console_view, field_errors
from hbus_console.alerts import services
from hbus_console.alerts.feature import ALERT_EDIT
from hbus_console.alerts.kinds import TONES, AlertKind, kind_named, kinds
from hbus_console.alerts.models import Alert, Channel, Rule
from hbus_console.alerts.services import RuleDraft, lookup
from hbus_console.alerts.services.rule_draft import MEASURED, SETTINGS, TOLD, WATCHED, WINDOW_S
from hbus_console.alerts.views.alerts import frame
from hbus_console.drafts.setting import Setting
from hbus_console.teams.services import team_names
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.formats import duration
from hbus_console.ui.forms import revision
from hbus_console.ui.pages import clock, form_page


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def rules(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    found = lookup.rules(who)
    firing: dict[int | None, int] = {}
    for pk in lookup.alerts(who).filter(state=Alert.State.FIRING).values_list("rule_id", flat=True):
        firing[pk] = firing.get(pk, 0) + 1
    context = {
        **frame(who, "rules", clock.now_ms()),
        "rules": [
            {"rule": row, "kind": kind_named(row.kind), "says": sentence(row), "firing": firing.get(row.pk, 0),
             "tone": TONES[row.severity]}
            for row in found
        ],
        "silent": sum(1 for row in found if row.enabled and not row.channels.all()),
    }  # fmt: skip
    return render(request, "alerts/rules.html", context)


@require_http_methods(["GET", "POST"])
@console_view(ALERT_EDIT, resource=SOMEWHERE)
def new(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    wanted = request.GET.get("kind", "") or request.POST.get("kind", "")
    kind = kinds().get(wanted) or next(iter(kinds().values()), kind_named(wanted))
    scope = visible_scopes(who, ALERT_EDIT)[0]
    fresh = RuleDraft(name="", kind=kind.name, threshold=kind.usual, topics=scope, for_s=60)
    page = _editor(who, None, kind, {**asdict(fresh), "window_s": WINDOW_S})
    if request.method == "GET":
        return form_page(request, "alerts/rule.html", page)
    values = SETTINGS.typed(request.POST, SETTINGS.changeable)
    page["values"] = {**page["values"], **values}
    try:
        made = services.create_rule(who, RuleDraft(kind=kind.name, **values), request.POST.get("reason", ""))
    except BadInput as refused:
        return form_page(request, "alerts/rule.html", page, refused)
    messages.success(request, f"“{made.name}” is watched from the next evaluation on.")
    return redirect("alerts:rule", made.pk)


@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=ALERT_EDIT, resource=SOMEWHERE)
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    who = actor(request)
    row = services.rule(who, rule_id)
    page = _editor(who, row, kind_named(row.kind), SETTINGS.snapshot(row))
    if request.method == "GET":
        return form_page(request, "alerts/rule.html", page)
    values = SETTINGS.typed(request.POST, SETTINGS.changeable)
    page["values"] = {**page["values"], **values}
    try:
        changed = services.change_rule(
            who, rule_id, values, request.POST.get("reason", ""), revision=revision(request.POST)
        )
    except BadInput as refused:
        return form_page(request, "alerts/rule.html", page, refused)
    if changed.revision == row.revision:
        messages.info(request, "Nothing was different, so nothing changed.")
    else:
        messages.success(request, f"“{changed.name}” is changed, from the next evaluation on.")
    return redirect("alerts:rule", rule_id)


@require_POST
@console_view(ALERT_EDIT, resource=SOMEWHERE)
def preview(request: HttpRequest) -> HttpResponse:
    """A fragment: for what the rule of the form would fire now."""
    kind = request.POST.get("kind", "")
    context: dict[str, Any] = {}
    try:
        values = SETTINGS.typed(request.POST, SETTINGS.changeable)
        # A draft need not have a name to be tried.
        draft = RuleDraft(kind=kind, **{**values, "name": values["name"] or "untitled"})
        number = whole(request.POST.get("rule", ""))
        context = {"preview": services.preview(actor(request), draft, of=number), "kind": kind_named(kind)}
    except BadInput as refused:
        context = {"errors": field_errors(refused, SETTINGS.labels)}
    return render(request, "alerts/_preview.html", context)


@require_POST
@console_view(VIEW, post=ALERT_EDIT, resource=SOMEWHERE)
def test(request: HttpRequest, rule_id: int) -> HttpResponse:
    who = actor(request)
    services.rule(who, rule_id)
    try:
        for tried in services.try_rule(who, rule_id):
            tell = messages.success if tried.taken else messages.error
            tell(request, f"Test through {tried.channel}: {tried.said}")
    except BadInput as refused:
        messages.error(request, str(refused))
    return redirect("alerts:rule", rule_id)


@require_POST
@console_view(VIEW, post=ALERT_EDIT, resource=SOMEWHERE)
def delete(request: HttpRequest, rule_id: int) -> HttpResponse:
    who = actor(request)
    row = services.rule(who, rule_id)
    try:
        services.delete_rule(who, rule_id, request.POST.get("reason", ""))
    except BadInput as refused:
        messages.error(request, str(refused))
        return redirect("alerts:rule", rule_id)
    messages.success(request, f"“{row.name}” is deleted; the alerts it raised stay as evidence.")
    return redirect("alerts:rules")


def sentence(row: Rule) -> str:
    """``Any subscription of booking.* lets wait 5 m or more, for 2 m``."""
    kind = kind_named(row.kind)
    if not kind.installed:
        return "Nothing: the feature that brings its kind is not installed"
    targets = kind.targets
    where = f"any {targets.namespace_words}" if row.scope == GLOBAL else row.scope
    what = f"{row.pattern or f'any {targets.words}'} on {where}" if targets.within else where
    if row.of_team:
        what += f" of {row.team.name}" if row.team else " of a team that is gone"
    window = f" within {duration(row.window_s * 1_000_000)}" if kind.windowed else ""
    lasting = f", for {duration(row.for_s * 1_000_000)}" if row.for_s else ""
    if what.startswith("any "):
        what = what.replace("any", "Any", 1)
    return f"{what} {kind.says} {kind.said(row.threshold)} or more{window}{lasting}"


def _asked(kind: AlertKind, part: str) -> list[Setting]:
    """The settings of that part of the page, as far as they mean something for the kind."""
    means = {"group": bool(kind.targets.within), "window_s": kind.windowed}
    return [one for one in SETTINGS.part(part) if means.get(one.name, True)]


def _editor(who: Actor, row: Rule | None, kind: AlertKind, values: dict[str, Any]) -> dict[str, Any]:
    may = allows(who, ALERT_EDIT, row.scope if row else "?")
    number, targets = row.pk if row else 0, kind.targets
    return {
        **frame(who, "rules", clock.now_ms()),
        "rule": row,
        "says": sentence(row) if row else "",
        "may_edit": may,
        "kind": kind,
        "kinds": list(kinds().values()),
        "watched": _asked(kind, WATCHED),
        "measured": _asked(kind, MEASURED),
        "told": SETTINGS.part(TOLD),
        "topics_label": f"{targets.namespace_words}s".capitalize(),
        "topics_help": f"* for all, booking.* for a namespace, or one {targets.namespace_words}.",
        "group_label": f"{targets.words}s".capitalize(),
        "group_help": f"A name, or a pattern such as {targets.example_pattern or '*'}.",
        "threshold_help": kind.unit,
        "values": values,
        "teams": team_names(),
        "all_channels": Channel.objects.all(),
        "open_alerts": lookup.alerts(who).filter(rule=row).exclude(state=Alert.State.RESOLVED).count() if row else 0,
        "past_alerts": lookup.alerts(who).filter(rule=row).order_by("-pk")[:8] if row else [],
        "test_curl": CurlRequest("POST", f"/api/v1/alert-rules/{number}/test", {}),
        "change_curl": CurlRequest("PATCH", f"/api/v1/alert-rules/{number}", {"threshold": values["threshold"]}),
        "delete_curl": CurlRequest("DELETE", f"/api/v1/alert-rules/{number}", {"reason": "why"}),
    }
