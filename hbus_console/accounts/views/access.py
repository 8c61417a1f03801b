"""The Access page: one's own roles and tokens, and for admins everybody's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from django.db.models import Case, Count, IntegerField, Q, When
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from engine.core.errors import BadInput
from engine.core.numbers import whole
from hbus_console import checks, cursors
from hbus_console.access.acts import VIEW, Role
from hbus_console.access.permissions import GLOBAL, Actor, allows
from hbus_console.access.scopes import valid_role
from hbus_console.access.web import actor, console_view, field_errors
from hbus_console.accounts import services
from hbus_console.accounts.feature import ACCESS_MANAGE, TOKEN_OWN
from hbus_console.accounts.models import ApiToken, User
from hbus_console.accounts.tokens import is_live
from hbus_console.registry.acts import acts
from hbus_console.ui.formats import listed
from hbus_console.ui.pages import refuse_act, tell_done

#: Users a page shows, and tokens of each list on it.
PAGE = 100
#: Choices for a token's life, in days.
LIVES = ((7, "a week"), (30, "30 days"), (90, "90 days"), (365, "a year"))


@require_GET
@console_view(TOKEN_OWN)
def access(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    manages = allows(who, ACCESS_MANAGE)
    users, next_user = _users(request.GET.get("cursor", "")) if manages else ([], "")
    living = Q(revoked_at__isnull=True, expires_at__gt=datetime.now(UTC))
    own, others = Q(user_id=who.user_id), living & ~Q(user_id=who.user_id)
    tokens, more_tokens = _tokens(own, request.GET.get("tokens", ""))
    others_tokens, more_others = _tokens(others, request.GET.get("others", "")) if manages else ([], "")
    return render(
        request,
        "accounts/access.html",
        {
            "nav": "access",
            "manages": manages,
            "users": users,
            "next_user": next_user,
            "people": User.objects.filter(is_active=True).count() if manages else 0,
            "programs": ApiToken.objects.filter(living).count() if manages else 0,
            "tokens": tokens,
            "more_tokens": more_tokens,
            "own_tokens": ApiToken.objects.filter(own).count(),
            "own_living": ApiToken.objects.filter(own, living).count(),
            "others_tokens": others_tokens,
            "more_others": more_others,
            "others_living": ApiToken.objects.filter(others).count() if manages else 0,
            "roles": [(role, _adds(role)) for role in Role],
        },
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@console_view(TOKEN_OWN)
def new_token(request: HttpRequest) -> HttpResponse:
    """Make a token; the answer to the POST is the only page that ever shows it."""
    who = actor(request)
    page: dict[str, Any] = {
        "nav": "access",
        "roles": _own_roles(who),
        "scopes": [grant.scope for grant in who.grants],
        "lives": LIVES,
    }
    if request.method != "POST":
        asked = {"role": Role.VIEWER.value, "scope": who.grants[0].scope if who.grants else GLOBAL, "days": "90"}
        return render(request, "accounts/token_new.html", {**page, "asked": asked})
    asked = {name: request.POST.get(name, "").strip() for name in ("name", "role", "scope", "days")}
    try:
        expires = datetime.now(UTC) + timedelta(days=_days(asked["days"]))
        made = services.create_token(who, asked["name"], valid_role(asked["role"]), asked["scope"], expires)
    except BadInput as refused:
        page |= {"asked": asked, "errors": field_errors(refused)}
        return render(request, "accounts/token_new.html", page, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    return render(request, "accounts/token_made.html", {"nav": "access", "made": made}, status=HTTPStatus.CREATED)


@require_POST
@console_view(TOKEN_OWN)
def revoke_token(request: HttpRequest, prefix: str) -> HttpResponse:
    who = actor(request)
    mine = Q() if allows(who, ACCESS_MANAGE) else Q(user_id=who.user_id)
    token = ApiToken.objects.filter(mine, prefix=prefix).first()
    if token is None:
        raise Http404("There is no such token of yours.")
    try:
        services.revoke_token(who, token, checks.reason(request.POST.get("reason", "")))
    except BadInput as refused:
        return refuse_act(request, refused, "accounts:access")
    tell_done(request, f"The token {token.name} is revoked: its next request is refused.")
    return redirect("accounts:access")


def _users(after: str) -> tuple[Sequence[User], str]:
    """Users by name, and the name to go on from."""
    living = Q(tokens__revoked_at__isnull=True, tokens__expires_at__gt=datetime.now(UTC))
    rows = User.objects.prefetch_related("grants").annotate(living_tokens=Count("tokens", filter=living))
    found = list(rows.filter(username__gt=after).order_by("username")[: PAGE + 1])
    return found[:PAGE], found[PAGE - 1].username if len(found) > PAGE else ""


def _tokens(which: Q, after: str) -> tuple[list[tuple[ApiToken, str]], str]:
    """Tokens with the word for their state, the living first and then the newest; and where to go on from.

    The database puts the living first: an old one that can still be used is never behind a hundred that cannot.
    """
    now = datetime.now(UTC)
    ended = Case(When(revoked_at__isnull=True, expires_at__gt=now, then=0), default=1, output_field=IntegerField())
    rows = ApiToken.objects.filter(which).select_related("user").annotate(ended=ended).order_by("ended", "-pk")
    if after:
        group, number = cursors.read(after, 2)
        rows = rows.filter(cursors.beyond({"ended": group, "-pk": number}))
    shown, tail = cursors.cut(list(rows[: PAGE + 1]), PAGE)
    told: list[tuple[ApiToken, str]] = [(token, _state(token, now)) for token in shown]
    return told, cursors.written(int(not is_live(tail, now)), tail.pk) if tail else ""


def _state(token: ApiToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at <= now:
        return "expired"
    return "expires soon" if token.expires_at <= now + timedelta(days=7) else "active"


def _adds(role: Role) -> str:
    """What a role may do beyond the ones before it, in the words of the acts."""
    words = [act.words for act in acts().values() if act.needs is role and act is not VIEW]
    return f"may {listed(dict.fromkeys(['see what is there'] * (role is VIEW.needs) + words))}"


def _own_roles(who: Actor) -> list[str]:
    """The roles a token of ``who`` may have: up to the strongest they have anywhere."""
    strongest = max((grant.role.rank for grant in who.grants), default=-1)
    return [role.value for role in Role if role.rank <= strongest]


def _days(text: str) -> int:
    number = whole(text)
    if number is None or not 1 <= number <= 365:
        raise BadInput("A token lives from 1 to 365 days.", remedy="Choose how long.", field="days")
    return number
