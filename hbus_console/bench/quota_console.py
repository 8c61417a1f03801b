"""A measured process: pages of the console behind its own quota middleware, and behind one that does nothing."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django
from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest
from django.test import RequestFactory

from hbus_console.bench.processes import report, wait_for_go
from hbus_console.bench.quota_plane import MeasuredPlane
from hbus_console.bench.quota_request import SITE, TENANTS, WARM_ROUNDS, each_us, handler_behind


def main(task: dict[str, Any]) -> None:
    """``task`` as that of :mod:`.quota_request`. Raises ``RuntimeError`` when the middleware charges nobody."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "hbus_console.settings"
    django.setup()
    # Models are there from here on.
    from engine.core.facts import MemoryFacts
    from hbus_console.quotas.door import QuotaDoor
    from hbus_console.wiring.store import once

    settings.ROOT_URLCONF = SITE
    settings.HBUS_QUOTAS = True
    settings.ALLOWED_HOSTS = ["*"]
    measured = MeasuredPlane(task["url"])
    # It tells nobody of what it does: that is done twice a second at most, however much comes.
    here = once("quota door", lambda: QuotaDoor("bench", measured.plane, MemoryFacts()))
    here.node.start()
    handlers = [handler_behind(f"{SITE}.plain"), handler_behind("hbus_console.quotas.requests.QuotaMiddleware")]
    requests = [_request(f"person{number}") for number in range(TENANTS)]
    turns = max(1, task["requests"] // TENANTS)
    for _ in range(WARM_ROUNDS):
        for handler in handlers:
            each_us(handler, requests, turns)
    if not all("RateLimit" in _answer(handlers[1], request) for request in requests):
        raise RuntimeError("the middleware said nothing of any limit")
    wait_for_go()
    found = [[each_us(handler, requests, turns) for handler in handlers] for _ in range(task["rounds"])]
    here.node.stop()
    measured.close()
    report(without=[each[0] for each in found], checked=[each[1] for each in found])


def _request(name: str) -> HttpRequest:
    """Of who is signed in: what finds that out is other middleware."""
    # What an actor is stands among models, which are there once Django is set up.
    from hbus_console.access.permissions import Actor

    request = RequestFactory().get("/availability")
    request.COOKIES[settings.SESSION_COOKIE_NAME] = "session"
    request.actor = Actor(name)  # type: ignore[attr-defined]
    return request


def _answer(handler: BaseHandler, request: HttpRequest) -> dict[str, str]:
    return dict(handler.get_response(request).items())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
