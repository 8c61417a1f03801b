"""``/healthz`` and ``/readyz``: what a balancer, a container engine and the supervisor ask. No login, no secrets."""

from __future__ import annotations

from functools import cache

import redis
from django.conf import settings
from django.db import DatabaseError, connections
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from engine.core.errors import ConfigurationError
from engine.core.store import condition_of, each_primary, open_client
from hbus_console.cluster import asking
from hbus_console.ui import live
from hbus_console.wiring import store

_PATIENCE_S = 2.0


@never_cache
@require_safe
def healthz(_: HttpRequest) -> JsonResponse:
    """200 as long as the process answers at all."""
    return JsonResponse({"status": "alive", "node": store.node_name()})


@never_cache
@require_safe
def readyz(_: HttpRequest) -> JsonResponse:
    """200 when the databases and the store answer, pages follow, and what features cannot do without; else 503.

    Every part is named, also one that is ill and only some of the work needs.
    """
    asked = asking.begin()
    parts = {
        **{f"database:{alias}": _database(alias) for alias in settings.DATABASES},
        "store": _store(),
        # Without it pages that are open stand still, and what is loaded is all that is new.
        "live": live.trouble() or "ok",
    }
    ready = all(word == "ok" for word in parts.values())
    for standing in asking.answers(asked):
        parts.setdefault(standing.name, standing.health.trouble or "ok")
        ready = ready and not (standing.health.needed and standing.health.trouble)
    return JsonResponse({"status": "ready" if ready else "not ready", "parts": parts}, status=200 if ready else 503)


def _database(alias: str) -> str:
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "does not answer"
    return "ok"


def _store() -> str:
    try:
        for primary in each_primary(_client()):
            primary.ping()
    except ConfigurationError:
        return "is not configured"
    except redis.ResponseError:
        return "takes no writes"
    except redis.RedisError as error:
        condition = condition_of(error)
        return condition.what if condition else "does not answer"
    return "ok"


@cache
def _client() -> redis.Redis:
    """A client of its own: a probe must give up sooner than work does."""
    return open_client(store.url(), answer_timeout_s=_PATIENCE_S, connect_timeout_s=_PATIENCE_S, max_connections=4)
