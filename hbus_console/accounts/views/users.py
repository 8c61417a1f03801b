"""Users, for admins: add one, change roles, reset a password, deactivate."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console import checks
from hbus_console.access.acts import Role
from hbus_console.access.permissions import ScopedRole
from hbus_console.access.scopes import valid_role
from hbus_console.access.web import FORM_MARK, actor, console_view, field_errors
from hbus_console.accounts import services
from hbus_console.accounts.feature import ACCESS_MANAGE
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import about
from hbus_console.audit.telling import Told, tell_all
from hbus_console.ui.pages import refuse_act, tell_done

#: Role-and-scope rows a form offers beyond those that are filled.
SPARE = 2
#: No form sends more.
MOST = 50
#: Entries of the audit log that a user's page shows.
RECENT = 8


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@console_view(ACCESS_MANAGE)
def new_user(request: HttpRequest) -> HttpResponse:
    """Add a user; the answer to the POST is the only page that shows their first password."""
    page: dict[str, Any] = {"nav": "access", "all_roles": list(Role)}
    if request.method != "POST":
        return render(request, "accounts/user_new.html", {**page, "rows": _rows([("viewer", "*")])})
    asked = {name: request.POST.get(name, "").strip() for name in ("username", "email")}
    try:
        made = services.create_user(actor(request), asked["username"], _grants(request.POST), email=asked["email"])
    except BadInput as refused:
        page |= {"asked": asked, "rows": _rows(_sent(request.POST)), "errors": field_errors(refused)}
        return render(request, "accounts/user_new.html", page, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    shown = {"nav": "access", "person": made.user, "password": made.password, "act": "added"}
    return render(request, "accounts/password_shown.html", shown, status=HTTPStatus.CREATED)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@console_view(ACCESS_MANAGE)
def user(request: HttpRequest, username: str) -> HttpResponse:
    """One user. ``act`` of a POST: roles, reset, deactivate, reactivate; each with its reason."""
    person = User.objects.filter(username=username).first()
    if person is None:
        raise Http404(f"There is no user {username}.")
    if request.method != "POST":
        return _page(request, person)
    who, act = actor(request), request.POST.get("act", "")
    try:
        reason = checks.reason(request.POST.get("reason", ""))
        match act:
            case "roles":
                services.change_grants(who, person, _grants(request.POST), reason)
                said = f"The roles of {username} are changed, from their next request on."
            case "reset":
                password = services.reset_password(who, person, reason)
                shown = {"nav": "access", "person": person, "password": password, "act": "reset"}
                return render(request, "accounts/password_shown.html", shown)
            case "deactivate":
                services.deactivate_user(who, person, reason)
                said = f"{username} is deactivated: their sessions and tokens have ended."
            case "reactivate":
                services.reactivate_user(who, person, reason)
                said = f"{username} may sign in again."
            case other:
                raise BadInput(f"There is no act {other!r}.", remedy="Use the buttons of the page.", field="act")
    except BadInput as refused:
        if act != "roles" and FORM_MARK in request.headers:
            return refuse_act(request, refused, "accounts:user", username)
        sent = _sent(request.POST) if act == "roles" else None
        return _page(request, person, refused, sent)
    tell_done(request, said)
    return redirect("accounts:user", username=username)


def _page(
    request: HttpRequest, person: User, refused: BadInput | None = None, sent: list[tuple[str, str]] | None = None
) -> HttpResponse:
    stored = [(grant.role, grant.scope) for grant in person.grants.order_by("scope")]
    context = {
        "nav": "access",
        "person": person,
        "grants": stored,
        "rows": _rows(sent if sent is not None else stored),
        "all_roles": list(Role),
        "tokens": person.tokens.filter(revoked_at__isnull=True).order_by("-pk"),
        "recent": _told(AuditEntry.objects.filter(actor=person.username)),
        "about": _told(
            AuditEntry.objects.filter(about(Subject("user", "", person.username))).exclude(actor=person.username)
        ),
        "refused": refused,
        "errors": field_errors(refused) if refused else {},
        "oneself": actor(request).user_id == person.pk,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if refused else HTTPStatus.OK
    return render(request, "accounts/user.html", context, status=status)


def _told(entries: QuerySet[AuditEntry]) -> list[Told]:
    return tell_all(entries.order_by("-seq")[:RECENT])


def _sent(form: QueryDict) -> list[tuple[str, str]]:
    """The rows of the form that say anything."""
    rows = zip(form.getlist("role")[:MOST], form.getlist("scope")[:MOST], strict=False)
    return [(role.strip(), scope.strip()) for role, scope in rows if role.strip() or scope.strip()]


def _grants(form: QueryDict) -> list[ScopedRole]:
    """A row without a role takes the scope away."""
    return [ScopedRole(valid_role(role), scope or "*") for role, scope in _sent(form) if role]


def _rows(filled: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*filled, *[("", "")] * SPARE]
