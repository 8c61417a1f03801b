"""Limits of requests: of programs at the API (service ``api``) and of people on pages (service ``console``).

The tenant is who is signed in, as the session or token proves it; never a header. Who is nobody is refused by what
guards pages and endpoints, and takes no tokens. The resource is the method with the name of the route: ``POST topics``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from engine.core.errors import QuotaExceeded
from engine.quota.headers import HeaderForm, rate_limit_headers
from hbus_console.access.permissions import Actor
from hbus_console.access.web import actor, refuse
from hbus_console.quotas import door

API, CONSOLE = "api", "console"
_FORMS = {form.value: form for form in HeaderForm}


class Charge(NamedTuple):
    """What a request took, and of whom."""

    service: str
    resource: str
    tenant: str
    cost: int


class QuotaThrottle(BaseThrottle):
    """Charges a request of the API once it is known who sends it. Raises :class:`QuotaExceeded`."""

    def allow_request(self, request: Request, view: Any) -> bool:
        charge(request._request, API, actor(request._request))
        return True


class QuotaMiddleware:
    """Charges pages, gives back what a request took that failed here, and tells of limits in the answer's headers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        charged: Charge | None = getattr(request, "quota_charge", None)
        if charged is not None:
            _after(charged, response)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> HttpResponse | None:
        # An endpoint learns later who calls, and asks for itself. Whoever has no session is nobody on a page.
        if hasattr(view, "cls") or settings.SESSION_COOKIE_NAME not in request.COOKIES:
            return None
        try:
            charge(request, CONSOLE, actor(request))
        except QuotaExceeded as error:
            refused = refuse(request, error)
            refused["Retry-After"] = str(error.again_s)
            return refused
        return None


def charge(request: HttpRequest, service: str, who: Actor) -> None:
    """Take what the request costs from who sends it. Raises :class:`QuotaExceeded`, having taken nothing."""
    here = door.present()
    match = request.resolver_match
    if here is None or match is None or not who.is_authenticated:
        return
    cost = _cost(match.view_name)
    if not cost:
        return
    taken = Charge(service, f"{request.method} {match.view_name.removeprefix('v1:')}", who.name, cost)
    admission = here.gate.admit(*taken)
    request.quota_charge = taken  # type: ignore[attr-defined]
    if not admission.ok:
        raise QuotaExceeded(
            f"{who.name} may send no more requests of this kind for now.",
            again_s=admission.again_s,
            policies=admission.policies,
        )


def _after(charged: Charge, response: HttpResponse) -> None:
    here = door.present()
    if here is None:
        return
    service, resource, tenant, cost = charged
    if response.status_code >= 500:
        here.gate.take_back(service, resource, tenant, cost)
    status = here.gate.look(service, resource, tenant)
    if not status.rule:
        return
    again_s = float(response.headers.get("Retry-After", "0")) if response.status_code == 429 else 0.0
    form = _FORMS[settings.HBUS_RATELIMIT_HEADERS]
    for header, value in rate_limit_headers(status, status.rule, again_s, form).items():
        response.headers.setdefault(header, value)


@lru_cache(maxsize=1_000)
def _cost(route: str) -> int:
    """Tokens for one request of that route; 0: it is not limited. Of the patterns that fit, the first says."""
    costs: Mapping[str, int] = settings.HBUS_QUOTA_COSTS
    return next((cost for pattern, cost in costs.items() if fnmatchcase(route, pattern)), 1)
