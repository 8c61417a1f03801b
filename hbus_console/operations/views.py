"""The pages of the operations: what runs and what ran, one with its results, and the dry run before a start."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from engine.core.errors import BadInput
from engine.core.numbers import whole
from engine.core.strict_json import NotJson, read_typed
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.web import actor, console_view, field_errors
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.trail import sees_all
from hbus_console.evidence import freshness
from hbus_console.evidence.freshness import Freshness
from hbus_console.operations import guarded, reading, services, steering
from hbus_console.operations.kinds import NotInstalled, installed_kind, installed_kinds, kind_named
from hbus_console.operations.models import ACTIVE, Operation, OperationItem
from hbus_console.registry.declaration import MenuEntry
from hbus_console.registry.loading import features
from hbus_console.registry.subjects import kind_named as subject_kind
from hbus_console.ui.control_characters import json_to_send
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.formats import listed, num
from hbus_console.ui.pages import back_to, clock, refuse_act

#: No form's number is larger; what a rate may be says the service.
_MOST_RATE = 999_999
#: What the sheets of the page ask: verb, title, what happens.
STEERING = (
    ("pause", "Pause it", "Nothing more happens after the step under way, until somebody resumes it."),
    ("resume", "Resume it", "It goes on where it was held."),
    ("cancel", "Cancel it", "What was done stays done; the rest is left as it is. It cannot be resumed."),
)
#: Things a second, as the form offers them; 0 is without a bound.
RATES = (1, 5, 10, 20, 50, 100, 500, 1_000, 0)
#: So many go first where somebody wants to see what becomes of a few.
FIRST = 5


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def operations(request: HttpRequest) -> HttpResponse:
    who, state = actor(request), request.GET.get("state", "")
    found = reading.page(services.operations(who), state, request.GET.get("cursor", ""))
    booked = freshness.facts(clock.now_ms())
    context = {
        "nav": "operations",
        "found": found,
        "booked": booked,
        "outcomes": reading.sentences(found.rows, booked),
        "stopped": steering.stopped(found.rows),
        "state": state,
        "states": Operation.State.values,
        "verbs": listed(it.verb for it in installed_kinds()),
        "begins": _begins(),
        "active": services.operations(who).filter(state__in=ACTIVE).count(),
        "settling": services.operations(who).filter(state=Operation.State.SETTLING).count(),
    }
    return render(request, "operations/list.html", context)


def _begins() -> MenuEntry | None:
    """Where most kinds of operations are begun: the list of the feature that brings them."""
    listing = [feature for feature in features() if feature.operations and feature.menu]
    return max(listing, key=lambda feature: len(feature.operations)).menu[0] if listing else None


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def operation(request: HttpRequest, operation_id: int) -> HttpResponse:
    who = actor(request)
    found = services.operation(who, operation_id)
    result, outcome = request.GET.get("result", ""), request.GET.get("outcome", "")
    kind = kind_named(found.kind)
    missing = kind.missing if isinstance(kind, NotInstalled) else None
    items = services.items(who, found)
    booked = freshness.facts(clock.now_ms())
    context = {
        "nav": "operations",
        "operation": found,
        "kind": kind,
        "missing": missing,
        "things": subject_kind(kind.works_on),
        "spec": json_to_send(services.specs_for(who, [found])[found.pk]),
        "items": reading.items(items, result, request.GET.get("cursor", ""), outcome),
        "booked": booked,
        "became": reading.sentences([found], booked).get(found.pk, ""),
        "result": result,
        "results": OperationItem.Result.values,
        "outcome": outcome,
        "outcomes": OperationItem.Outcome.values,
        "pace": reading.pace(found),
        "held_itself": reading.held_itself(found),
        "may_steer": services.may_steer(who, found),
        "may_audit": allows(who, AUDIT_READ, found.namespace) if found.namespace else sees_all(who),
        "steering": _steering(found, booked, missing=missing is not None),
        "steered": steering.steered(found),
        "knows_all": (knows_all := guarded.knows_all(who, found)),
        "proven": guarded.proven(found) if found.guarded and knows_all else None,
        "curl_spec": CurlRequest("GET", f"/api/v1/operations/{found.pk}"),
    }
    if request.headers.get("HX-Request") != "true":
        return render(request, "operations/operation.html", context)
    answer = render(request, "operations/_progress.html", {**context, "part": True})
    if _act_word(request.headers.get("X-Shown", "")) != _act_word(found.state):
        # Other acts are possible now than the page offers.
        answer["HX-Refresh"] = "true"
    return answer


def _steering(found: Operation, booked: Freshness, *, missing: bool) -> list[tuple[str, str, str]]:
    """Verb, title and effect of each sheet. What is to follow its first few says how these fared."""
    if not reading.held_itself(found):
        return [each for each in STEERING if each[0] != "resume" or not missing]
    fared = reading.sentences([found], booked).get(found.pk, "") or "what became of them is not known"
    # Of some that was not known before it began.
    left = num(max(0, found.total - found.handled)) if found.total else "All that is left, nobody knows how many,"
    resume = (
        "resume",
        "Let the rest follow",
        f"Of the first {num(found.first)}: {fared}. {left} would follow now.",
    )
    return [resume if each[0] == "resume" else each for each in STEERING if each[0] != "resume" or not missing]


def _act_word(state: str) -> str:
    return "moves" if state in ("queued", "running") else state


@require_http_methods(["GET", "POST"])
@console_view(VIEW, resource=SOMEWHERE)
def plan(request: HttpRequest, kind: str) -> HttpResponse:
    """The dry run; posting it starts the operation."""
    who, chosen = actor(request), installed_kind(kind)
    spec: dict[str, Any] = {}
    horizon: int | None = None
    reason, rate = request.POST.get("reason", ""), request.POST.get("rate_per_s", str(chosen.rate_per_s))
    try:
        spec = _spec(request.POST.get("spec", "")) if request.method == "POST" else chosen.from_query(request.GET)
        if request.method == "POST":
            horizon = _horizon(request.POST.get("horizon", ""))
            started = services.start(
                who,
                kind,
                spec,
                reason=reason,
                rate_per_s=_whole(rate),
                first=whole(request.POST.get("first", "")) or 0,
                horizon=horizon,
            )
            (messages.success if started.new else messages.warning)(request, started.sentence)
            return redirect("operations:operation", started.operation.pk)
        return _planned(request, who, kind, spec)
    except BadInput as refused:
        return _planned(request, who, kind, spec, horizon=horizon, refused=refused)


@require_POST
@console_view(VIEW, resource=SOMEWHERE)
def pause(request: HttpRequest, operation_id: int) -> HttpResponse:
    return _steer(request, operation_id, services.pause, "It is held; nothing more happens until somebody resumes it.")


@require_POST
@console_view(VIEW, resource=SOMEWHERE)
def resume(request: HttpRequest, operation_id: int) -> HttpResponse:
    return _steer(request, operation_id, services.resume, "It goes on where it was held.")


@require_POST
@console_view(VIEW, resource=SOMEWHERE)
def cancel(request: HttpRequest, operation_id: int) -> HttpResponse:
    return _steer(request, operation_id, services.cancel, "It is cancelled. What was done stays done.")


def _steer(
    request: HttpRequest, operation_id: int, act: Callable[[Actor, int, str], Operation], said: str
) -> HttpResponse:
    try:
        act(actor(request), operation_id, request.POST.get("reason", ""))
    except BadInput as refused:
        services.operation(actor(request), operation_id)
        return refuse_act(request, refused, "operations:operation", operation_id)
    messages.success(request, said)
    return back_to(request, "operations:operation", operation_id)


def _planned(
    request: HttpRequest,
    who: Actor,
    kind: str,
    spec: dict[str, Any],
    *,
    horizon: int | None = None,
    refused: BadInput | None = None,
) -> HttpResponse:
    """The page; refused, it shows again what was shown before, and nothing that has come since."""
    chosen = installed_kind(kind)
    context: dict[str, Any] = {
        "nav": "operations",
        "kind": chosen,
        "things": subject_kind(chosen.works_on),
        "spec": json_to_send(spec, indent=None),
        "reason": request.POST.get("reason", ""),
        "rate": request.POST.get("rate_per_s", str(chosen.rate_per_s)),
        "errors": field_errors(refused) if refused else {},
        "may_start": allows(who, chosen.action, SOMEWHERE),
    }
    context["choice_url"] = chosen.choice_url(spec)
    try:
        shown = context["plan"] = services.dry_run(who, kind, spec, horizon=horizon)
        horizon = shown.horizon
        context["rates"] = [
            (each, reading.at_rate(shown.total, each))
            for each in sorted({*RATES, chosen.rate_per_s}, key=_unbounded_last)
        ]
        context["taken"] = [
            (f"{each if visible else each.of_another}.", each.operation.pk if visible else None)
            for each, visible in services.shown_of(who, shown.taken or ())
        ]
        context["first"] = FIRST if chosen.rate_per_s and (shown.total is None or shown.total > FIRST) else 0
        context["title"] = chosen.title(chosen.check(who, spec, horizon))
    except BadInput as error:
        context["errors"] = context["errors"] or field_errors(error)
    context["curl_spec"] = CurlRequest(
        "POST",
        "/api/v1/operations",
        {
            "kind": kind,
            "spec": spec,
            "reason": context["reason"] or "why",
            "rate_per_s": whole(context["rate"]) or 0,
            "horizon": horizon,
        },
        idempotent=True,
    )
    status = HTTPStatus.UNPROCESSABLE_ENTITY if refused else HTTPStatus.OK
    return render(request, "operations/plan.html", context, status=status)


def _unbounded_last(rate: int) -> float:
    return rate or float("inf")


def _spec(text: str) -> dict[str, Any]:
    try:
        spec = read_typed(text)
    except NotJson:
        spec = None
    if not isinstance(spec, dict):
        raise BadInput("What was chosen is unreadable.", remedy="Choose again.", field="spec")
    return spec


def _horizon(text: str) -> int | None:
    number = whole(text)
    if number is None and text:
        raise BadInput("What was shown is unreadable.", remedy="Look at the dry run again.", field="horizon")
    return number


def _whole(text: str) -> int:
    number = whole(text)
    if number is None or number > _MOST_RATE:
        raise BadInput(f"{text[:20]!r} is not a rate.", remedy="Give a number a second, or 0.", field="rate_per_s")
    return number
