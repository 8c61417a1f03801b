"""Limits of requests, of how many and of how many at once: of programs at the API (service ``api``), and of people on
pages (service ``console``).

The tenant is who is signed in, as the session or token proves it; never a header. Who is nobody is refused by what
guards pages and endpoints, and takes no tokens. The resource is the method with the name of the route: ``POST topics``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from engine.core.errors import QuotaExceeded
from engine.quota.gate import HeldByRules, QuotaGate
from engine.quota.headers import HeaderForm, rate_limit, rate_limit_headers
from engine.quota.seats import FREE, Seated
from engine.quota.uses import Key
from hbus_console.access.permissions import Actor
from hbus_console.access.web import actor, refuse
from hbus_console.quotas import door
from hbus_console.quotas.services.rules import policy_of
from hbus_console.quotas.wording import CONSOLE

API = "api"
#: Nobody knows when a seat is left: who found none may ask again so soon, in seconds.
SEAT_AGAIN_S = 1.0


#: What a request took: by which gate, of which limiter and its name, how much (0: it was refused), its seat, and what
#: the limiter's stock was. A plain tuple, for each request makes one.
Charge = tuple[QuotaGate, HeldByRules, Key, int, Seated, object]


class QuotaThrottle(BaseThrottle):
    """Charges a request of the API once it is known who sends it. Raises :class:`QuotaExceeded`."""

    def allow_request(self, request: Request, view: Any) -> bool:
        if door.kept():
            charge(request._request, API, actor(request._request))
        return True


class QuotaMiddleware:
    """Charges pages, gives back what a request took that failed here, and tells of limits in the answer's headers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        # Read once: a setting costs as much as a check.
        if not door.kept():
            raise MiddlewareNotUsed("This installation keeps no quotas.")
        self._form = HeaderForm(settings.HBUS_RATELIMIT_HEADERS)
        self._letters = self._form.letters
        self._session = settings.SESSION_COOKIE_NAME

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            response = self._get_response(request)
        except BaseException:
            # Whoever hangs up has the request cancelled: nobody comes back to it.
            leave(request)
            raise
        charged: Charge | None = getattr(request, "quota_charge", None)
        if charged is not None:
            self._after(charged, response)
        return response

    def _after(self, charged: Charge, response: HttpResponse) -> None:
        gate, limiter, key, cost, seated, stock = charged
        if seated is not FREE:
            leave_after(seated, response)
        status = response.status_code
        if status >= 500:
            gate.take_back(limiter, key, cost, stock)
        told, headers = limiter.glance(), response.headers
        if status == 429 and not cost:
            again_s = float(headers.get("Retry-After", "0"))
            for header, value in rate_limit_headers(told, again_s, self._form).items():
                headers[header] = value
        elif lines := rate_limit(told, self._letters):
            # Not by item: that would look in each for what no header may have in it, and these have not.
            kept = headers._store
            kept["ratelimit-policy"], kept["ratelimit"] = ("RateLimit-Policy", lines[0]), ("RateLimit", lines[1])

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> HttpResponse | None:
        # An endpoint learns later who calls, and asks for itself. Whoever has no session is nobody on a page.
        if self._session not in request.COOKIES or _is_endpoint(view):
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
    match = request.resolver_match
    if match is None or not who.is_authenticated:
        return
    resource, cost = _priced(request.method or "", match.view_name)
    if not cost:
        return
    gate, tenant = door.door().gate, who.name
    key = service, resource, tenant
    limiter = gate.limiter(service, resource, tenant)
    stock = limiter.stock
    seated = gate.enter(service, resource, tenant)
    if seated is not FREE and not seated.ok:
        policy = policy_of(unquote(seated.refused))
        raise QuotaExceeded(
            f"As many requests of this kind as may be are being answered for {tenant}, by the policy {policy}.",
            again_s=SEAT_AGAIN_S,
            policies=(policy,),
        )
    request.quota_charge = (gate, limiter, key, cost, seated, stock)  # type: ignore[attr-defined]
    admission = gate.ask(limiter, key, cost)
    if not admission.ok:
        request.quota_charge = (gate, limiter, key, 0, seated, stock)  # type: ignore[attr-defined]
        policy = policy_of(admission.rule)
        raise QuotaExceeded(
            f"{tenant} may send no more requests of this kind for now, by the policy {policy}.",
            again_s=admission.again_s,
            policies=(policy,),
        )


def leave(request: HttpRequest) -> None:
    """Let go the seat of a request that is not answered."""
    charged: Charge | None = getattr(request, "quota_charge", None)
    if charged is not None:
        charged[4].leave()


def leave_after(seated: Seated, response: HttpResponse) -> None:
    """A stream is being answered until it is closed."""
    if not response.streaming:
        seated.leave()
        return
    close = response.close

    def close_and_leave() -> None:
        try:
            close()
        finally:
            seated.leave()

    response.close = close_and_leave  # type: ignore[method-assign]


@lru_cache(maxsize=1_000)
def _is_endpoint(view: Callable[..., Any]) -> bool:
    return hasattr(view, "cls")


@lru_cache(maxsize=1_000)
def _priced(method: str, route: str) -> tuple[str, int]:
    """What a request is for, and tokens for one; 0: it is not limited. Of the patterns that fit, the first says."""
    costs: Mapping[str, int] = settings.HBUS_QUOTA_COSTS
    cost = next((cost for pattern, cost in costs.items() if fnmatchcase(route, pattern)), 1)
    return f"{method} {route.removeprefix('v1:')}", cost
