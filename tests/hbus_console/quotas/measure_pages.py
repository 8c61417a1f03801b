"""How long the pages of quotas take of a large installation: ``python -m pytest -s`` with the path of this file.

No test of the run, which judges what work costs by counting it (``test_at_scale.py``): a time is the machine's.
``POLICIES``, ``TENANTS``, ``NAMES`` of each and ``USES`` in the environment make it smaller or larger. ``ONLY``
measures what contains that text; ``PROFILE`` tells where the time goes of what is called so (several between ``|``).
"""

from __future__ import annotations

import cProfile
import os
import pstats
import time
from collections.abc import Callable
from statistics import median

import pytest
from django.test import Client

from hbus_console.access.permissions import GLOBAL
from hbus_console.quotas.foreseeing import preview
from tests.hbus_console.access_world import person
from tests.hbus_console.quotas import at_scale
from tests.hbus_console.quotas.test_foreseeing import POLICY
from tests.plans import measured, plans

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
POLICIES, TENANTS, USES, NAMES = (
    int(os.environ.get(name, default))
    for name, default in (("POLICIES", 2_000), ("TENANTS", 2_000), ("USES", 2_000_000), ("NAMES", 5))
)
ROUNDS, LONG_S = 5, 6.0


def test_measure_the_pages() -> None:
    now_ms = round(time.time() * 1000)
    at_scale.policies(POLICIES, TENANTS)
    began = time.monotonic()
    made = at_scale.uses(USES, TENANTS, now_ms, NAMES)
    at_scale.nodes(5, now_ms, TENANTS)
    measured("default", "ledger")
    took = time.monotonic() - began
    print(f"\n{POLICIES:,} policies, {TENANTS * NAMES:,} limiters, {made:,} uses (filled in {took:.0f} s)")
    client = Client()
    client.force_login(person("ada", "admin"))
    for path in (
        "/quotas/",
        "/quotas/?cursor=policy-01000",
        "/quotas/?q=policy-0123",
        "/quotas/?policy=policy-00007",
        "/quotas/?range=24h",
        "/quotas/policies/policy-00007/",
        "/quotas/policies/everyone/",
        "/quotas/chart/?policy=everyone&range=24h",
        "/quotas/chart/?policy=everyone&range=7d",
        "/quotas/chart/?policy=everyone&range=3h",
        "/quotas/chart/?policy=policy-00007&range=24h",
        "/quotas/chart/?policy=policy-00009&range=24h",
        "/quotas/chart/?policy=partners&range=24h",
        "/quotas/chart/?policy=everyone&range=24h&service=publish&resource=hotels.rates&tenant=tenant-00007",
    ):
        _tell(path, lambda path=path: _get(client, path))
    for words, more in (
        ("of everybody, each", {}),
        ("of everybody, each, wide", {"limit": 500.0, "burst": 1000.0}),
        ("of everybody, together", {"whose": "together"}),
        ("of one service", {"service": "publish"}),
        ("of a tenant", {"tenant": "tenant-00007"}),
        ("of a group", {"tenant": "tenant-001*"}),
        ("of a plan", {"plan": "partner"}),
        ("each day", {"period": "day", "limit": 10_000.0}),
    ):
        _tell(
            f"preview {words}",
            lambda more=more: preview({**POLICY, "limit": 5.0, "burst": 10.0, **more}, now_ms, (GLOBAL,)),
        )


def _get(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content[:300]


def _tell(what: str, do: Callable[[], object]) -> None:
    if os.environ.get("ONLY", "") not in what:
        return
    do()
    took: list[tuple[float, float]] = []
    while len(took) < ROUNDS and sum(wall for wall, _ in took) < LONG_S:
        began, began_cpu = time.perf_counter(), time.process_time()
        do()
        took.append((time.perf_counter() - began, time.process_time() - began_cpu))
    wall, cpu = (median(column) * 1000 for column in zip(*took, strict=True))
    print(f"{what:100} {wall:6.0f} ms, of which the processor {cpu:6.0f}", flush=True)
    if what in os.environ.get("PROFILE", "").split("|"):
        profile = cProfile.Profile()
        profile.runcall(do)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
        with plans("ledger") as seen, plans() as others:
            do()
        print(*seen.told, *others.told, sep="\n")
