"""The theme switch: a cookie, so that the first byte of the next page is already right."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import console_view
from hbus_console.ui.context import THEMES

_KEPT_S = 366 * 86_400


@require_POST
@console_view(VIEW, resource=SOMEWHERE)
def theme(request: HttpRequest) -> HttpResponse:
    """Set ``theme`` to light or dark; anything else follows the system. Back to ``next``."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}, require_https=request.is_secure()):
        back = resolve_url("overview:overview")
    response = HttpResponseRedirect(back)
    wanted = request.POST.get("theme", "")
    if wanted in THEMES:
        response.set_cookie("hbus_theme", wanted, max_age=_KEPT_S, samesite="Lax", secure=request.is_secure())
    else:
        response.delete_cookie("hbus_theme")
    return response
