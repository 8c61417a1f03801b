"""``/metrics``: what every process of the installation has counted and measured, for Prometheus.

Without ``PROMETHEUS_MULTIPROC_DIR`` (a single process under test) it shows this process alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Metric, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from engine.core.clock import SystemClock
from hbus_console import metric_files
from hbus_console.access.permissions import GLOBAL, visible_scopes
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of_token
from hbus_console.cluster.feature import CLUSTER_VIEW
from hbus_console.metrics import current
from hbus_console.proxies import stands_on

#: What Django's metrics sum up of bodies: one message between two looks, and its masked payload's size is known.
_SIZES_OF_BODIES = frozenset({"django_http_requests_body_total_bytes", "django_http_responses_body_total_bytes"})
_clock = SystemClock()


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """``/metrics``, for this machine, or for a token whose scope is ``*``: it names every topic.

    A request that came through a proxy is never taken for one of this machine; where one of this machine is trusted,
    none is, for what it sends by itself nobody knows.
    """
    if not (_from_this_machine(request) or _sees_everything(request)):
        answer = HttpResponse(
            "Metrics are for this machine, or for an API token of role viewer with scope *.\n",
            content_type="text/plain",
            status=HTTPStatus.UNAUTHORIZED,
        )
        answer["WWW-Authenticate"] = "Bearer"
        return answer
    return HttpResponse(_latest(), content_type=CONTENT_TYPE_LATEST)


def _latest() -> bytes:
    folder = os.environ.get(metric_files.VARIABLE)
    if not folder:
        return generate_latest(_now(REGISTRY))
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    with metric_files.steady(Path(folder)):
        return generate_latest(_now(registry))


class _Current(Collector):
    """What is measured, without what was, and without what would tell the size of one payload."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        told = (metric for metric in self._registry.collect() if metric.name not in _SIZES_OF_BODIES)
        return current(told, _clock.now_ms())


def _now(registry: CollectorRegistry) -> CollectorRegistry:
    found = CollectorRegistry()
    found.register(_Current(registry))
    return found


#: What a proxy adds, one of them at least.
_FORWARDED = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP")


def _from_this_machine(request: HttpRequest) -> bool:
    if any(name in request.headers for name in _FORWARDED):
        return False
    address = request.META.get("REMOTE_ADDR", "")
    return address in ("127.0.0.1", "::1") and not stands_on(address, settings.TRUSTED_PROXIES)


def _sees_everything(request: HttpRequest) -> bool:
    scheme, _, raw = request.headers.get("Authorization", "").partition(" ")
    token = services.authenticate_token(raw.strip()) if scheme.lower() == "bearer" else None
    return token is not None and GLOBAL in visible_scopes(actor_of_token(token), CLUSTER_VIEW)
