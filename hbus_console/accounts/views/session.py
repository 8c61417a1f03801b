"""Signing in, signing out, one's own password."""

from __future__ import annotations

import math
from http import HTTPStatus

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from engine.core.errors import BadInput
from hbus_console.access.web import ENDED, actor, field_errors, sign_in_first
from hbus_console.accounts import services
from hbus_console.accounts.devices import remember_device
from hbus_console.accounts.models import User
from hbus_console.accounts.sessions import LoginRefused
from hbus_console.accounts.throttle import LoginThrottle

_throttle = LoginThrottle()


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """The login page. After too many wrong passwords it answers 429 and says how long to wait."""
    back = _back(request)
    if request.method != "POST":
        if actor(request).is_authenticated:
            return redirect(back)
        page = {"next": back, "no_users": not User.objects.exists(), "ended": ENDED in request.GET}
        return render(request, "accounts/login.html", page)
    username = request.POST.get("username", "").strip()
    try:
        user = services.sign_in(request, username, request.POST.get("password", ""), _throttle)
    except LoginRefused as refused:
        waits = refused.wait_s > 0
        page = {"next": back, "username": username, "refused": refused}
        status = HTTPStatus.TOO_MANY_REQUESTS if waits else HTTPStatus.UNAUTHORIZED
        response = render(request, "accounts/login.html", page, status=status)
        if waits:
            response["Retry-After"] = str(math.ceil(refused.wait_s))
        return response
    response = redirect("accounts:password" if user.must_change_password else back)
    remember_device(request, response, user)
    return response


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """Ends the session; by POST alone, so that no link or image can do it."""
    services.sign_out(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@never_cache
@sensitive_post_parameters("current", "new", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Change one's own password. The one page that is open to who must change it first."""
    user = request.user
    if not isinstance(user, User) or not actor(request).is_authenticated:
        return sign_in_first(request)
    forced = user.must_change_password
    if request.method != "POST":
        return render(request, "accounts/password.html", {"forced": forced})
    current, new = request.POST.get("current", ""), request.POST.get("new", "")
    try:
        if new != request.POST.get("again", ""):
            raise BadInput("The two new passwords differ.", remedy="Type the new one twice.", field="again")
        services.change_own_password(actor(request), request, current, new, _throttle)
    except BadInput as refused:
        page = {"forced": forced, "errors": field_errors(refused)}
        return render(request, "accounts/password.html", page, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    messages.success(request, "The password is changed. Your other sessions have ended.")
    response = redirect(settings.LOGIN_REDIRECT_URL if forced else "accounts:access")
    remember_device(request, response, user)
    return response


def _back(request: HttpRequest) -> str:
    """Where to go after signing in: an address of this console, never somebody else's."""
    wanted = request.POST.get(REDIRECT_FIELD_NAME) or request.GET.get(REDIRECT_FIELD_NAME, "")
    if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure()):
        return wanted
    return resolve_url(settings.LOGIN_REDIRECT_URL)
