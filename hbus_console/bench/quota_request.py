"""A measured process: requests through Django, with and without one check of a quota."""

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

from hbus_console.bench.loops import without_collector
from hbus_console.bench.processes import report, wait_for_go
from hbus_console.bench.quota_plane import MeasuredPlane

SITE = "hbus_console.bench.quota_site"
TENANTS = 100
#: Before it is measured.
WARM_ROUNDS = 3


def main(task: dict[str, Any]) -> None:
    """``task``: url of the store, requests of one round, rounds of each kind, in turn."""
    measured = MeasuredPlane(task["url"])
    node = measured.node()
    settings.configure(ROOT_URLCONF=SITE, ALLOWED_HOSTS=["*"], DATABASES={}, BENCH_LIMITER=node.limiter)
    django.setup()
    handlers = [handler_behind(f"{SITE}.plain"), handler_behind(f"{SITE}.checking")]
    made = RequestFactory()
    requests = [made.get("/availability", headers={"X-Tenant": f"tenant{number}"}) for number in range(TENANTS)]
    turns = max(1, task["requests"] // TENANTS)
    for _ in range(WARM_ROUNDS):
        for handler in handlers:
            each_us(handler, requests, turns)
    wait_for_go()
    found = [[each_us(handler, requests, turns) for handler in handlers] for _ in range(task["rounds"])]
    node.stop()
    measured.close()
    report(without=[each[0] for each in found], checked=[each[1] for each in found])


def handler_behind(middleware: str) -> BaseHandler:
    """One that has this alone before it."""
    settings.MIDDLEWARE = [middleware]
    handler = BaseHandler()
    handler.load_middleware()
    return handler


def each_us(handler: BaseHandler, requests: Sequence[HttpRequest], turns: int) -> float:
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
