"""A measured process: requests through Django, with the middleware of quotas and with one that does nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import django
from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest
from django.test import RequestFactory

from engine.core.facts import MemoryFacts
from engine.quota.planes.seats import RedisSeatPlane
from hbus_console.bench.loops import without_collector
from hbus_console.bench.processes import report, wait_for_go
from hbus_console.bench.quota_plane import PREFIX, MeasuredPlane

SITE = "hbus_console.bench.quota_site"
TENANTS = 100
#: Before it is measured.
WARM_ROUNDS = 3


def main(task: dict[str, Any]) -> None:
    """``task``: url of the store, requests of one round, rounds of each kind, in turn."""
    django.setup()
    # Of the console, for what they stand on has to be there first.
    from hbus_console.bench.quota_site import MeasuredTenant
    from hbus_console.quotas import door
    from hbus_console.wiring.store import once

    settings.ROOT_URLCONF = SITE
    settings.HBUS_QUOTAS = True
    measured = MeasuredPlane(task["url"])
    here = door.QuotaDoor("bench", measured.plane, MemoryFacts(), seats=RedisSeatPlane(measured.client, PREFIX))
    here.node.start()
    once("quota door", lambda: here)
    handlers = [_handler(f"{SITE}.IdleMiddleware"), _handler("hbus_console.quotas.requests.QuotaMiddleware")]
    made = RequestFactory()
    requests = [made.get("/availability") for _ in range(TENANTS)]
    for number, request in enumerate(requests):
        request.COOKIES[settings.SESSION_COOKIE_NAME] = "signed in"
        request.actor = MeasuredTenant(f"tenant{number}")  # type: ignore[attr-defined]
    turns = max(1, task["requests"] // TENANTS)
    for _ in range(WARM_ROUNDS):
        for handler in handlers:
            _each_us(handler, requests, turns)
    wait_for_go()
    found = [[_each_us(handler, requests, turns) for handler in handlers] for _ in range(task["rounds"])]
    here.close()
    measured.close()
    report(without=[each[0] for each in found], checked=[each[1] for each in found])


def _handler(middleware: str) -> BaseHandler:
    settings.MIDDLEWARE = [middleware]
    handler = BaseHandler()
    handler.load_middleware()
    return handler


def _each_us(handler: BaseHandler, requests: Sequence[HttpRequest], turns: int) -> float:
    """Processor microseconds of one."""
    answer = handler.get_response
    with without_collector():
        began = time.thread_time_ns()
        for _ in repeat(None, turns):
            for request in requests:
                answer(request)
        took = time.thread_time_ns() - began
    return took / 1000 / (turns * len(requests))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
