"""The gate of a process: admits, refuses, counts in shadow, tells when to come again, and reports to the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import REGISTRY

from engine.core.clock import ManualClock
from engine.core.facts import MemoryFacts
from engine.quota import Source
from engine.quota.plane import ControlPlane
from engine.quota.planes.memory import MemoryControlPlane
from hbus_console import metrics
from hbus_console.evidence.booking import Booking
from hbus_console.quotas.door import IDLE_S, TELL_S, QuotaDoor
from hbus_console.quotas.keeping import NodeCounter
from hbus_console.quotas.models import QuotaUse
from hbus_console.quotas.reports import LimiterReport, NodeReport, keep_report, read_reports
from hbus_console.quotas.services.books import give, newest_book
from tests.hbus_console.quotas.conftest import MakePolicy

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def facts() -> MemoryFacts:
    return MemoryFacts()


@pytest.fixture
def plane() -> ControlPlane:
    # One that was made long ago: young ones sell what came in since they were.
    moments = iter([0.0])
    return MemoryControlPlane(now=lambda: next(moments, 1e6 + time.monotonic()))


@pytest.fixture
def door(facts: MemoryFacts, plane: ControlPlane) -> Iterator[QuotaDoor]:
    made = QuotaDoor("here", plane, facts)
    yield made
    made.close()


def _in_force(plane: ControlPlane) -> None:
    book = newest_book()
    assert book is not None
    assert give(plane, book)


def test_what_no_policy_covers_passes_and_is_counted(door: QuotaDoor, facts: MemoryFacts) -> None:
    assert all(door.gate.admit("api", "topics", "ada", 2).ok for _ in range(50))
    door.tell()
    _book(facts)
    assert list(QuotaUse.objects.values_list("service", "resource", "tenant", "admitted", "refused")) == [
        ("api", "topics", "ada", 100, 0)
    ]


def test_what_is_over_the_limit_is_refused_with_the_time_to_come_again(
    make_policy: MakePolicy, plane: ControlPlane, facts: MemoryFacts
) -> None:
    make_policy("narrow", 2, 5)
    _in_force(plane)
    door = QuotaDoor("here", plane, facts)
    door.node.start()
    admitted = [door.gate.admit("api", "topics", "ada") for _ in range(20)]
    assert [each.ok for each in admitted].count(True) == 5
    refused = admitted[-1]
    assert 0 < refused.again_s <= 1
    assert refused.rule == "narrow"
    door.tell()
    ((row, report),) = read_reports(0)
    door.close()
    assert (row.node, report.version) == ("here", 1)
    (limiter,) = report.limiters
    assert (limiter.tenant, limiter.source, limiter.limit, limiter.burst) == ("ada", Source.PERMIT, 2, 5)
    assert limiter.refused_s > 0


def test_tokens_are_counted_by_service_and_policy_and_never_by_tenant(
    make_policy: MakePolicy, plane: ControlPlane, facts: MemoryFacts
) -> None:
    make_policy("meter", 2, 5, service="metered")
    _in_force(plane)
    door = QuotaDoor("here", plane, facts)
    door.node.start()
    for number in range(3):
        for _ in range(6):
            door.gate.admit("metered", "rooms", f"t{number}")
    door.gate.admit("free", "rooms", "t0")
    door.tell()
    door.close()
    before = len(metrics._labels_seen)
    metrics.count(facts.batches)

    def counted(what: str, service: str, policy: str) -> float | None:
        return REGISTRY.get_sample_value(f"hbus_quota_{what}_total", {"service": service, "policy": policy})

    assert (counted("admitted", "metered", "meter"), counted("refused", "metered", "meter")) == (15, 3)
    assert counted("admitted", "free", "") == 1
    assert len(metrics._labels_seen) - before == 2


def test_nodes_and_limiters_are_counted_by_how_they_stand(
    make_policy: MakePolicy, plane: ControlPlane, facts: MemoryFacts
) -> None:
    make_policy("narrow", 2, 5)
    _in_force(plane)
    clock = ManualClock()
    for name, away, at_ms in (("one", False, 0), ("two", True, 0), ("three", True, -60_000)):
        limiter = LimiterReport("api", "topics", "ada", Source.FALLBACK if away else Source.PERMIT, 1.0, 2.0, 5.0, 1)
        now_ms = clock.now_ms() + at_ms
        keep_report(name, now_ms, NodeReport(1, now_ms - 5_000 if away else 0, (limiter,)))
    NodeCounter(clock=clock).tick()

    def told(gauge: str, **labels: str) -> float | None:
        return REGISTRY.get_sample_value(f"hbus_quota_{gauge}", labels)

    assert [told("nodes", state=state) for state in ("reached", "cut_off", "silent")] == [1, 1, 1]
    assert [told("limiters", source=source) for source in ("permit", "fallback", "open")] == [1, 1, 0]


def test_a_shadow_refuses_nothing_and_is_counted(
    make_policy: MakePolicy, plane: ControlPlane, facts: MemoryFacts
) -> None:
    make_policy("narrow", 2, 5, shadow=True)
    _in_force(plane)
    door = QuotaDoor("here", plane, facts)
    door.node.start()
    assert all(door.gate.admit("api", "topics", "ada").ok for _ in range(20))
    door.tell()
    door.close()
    _book(facts)
    (use,) = QuotaUse.objects.all()
    assert (use.admitted, use.refused, use.shadowed) == (20, 0, 15)


def test_what_is_taken_back_may_be_taken_again(
    make_policy: MakePolicy, plane: ControlPlane, facts: MemoryFacts
) -> None:
    make_policy("one", 0.01, 1)
    _in_force(plane)
    door = QuotaDoor("here", plane, facts)
    door.node.start()
    key = ("api", "topics", "ada")
    limiter = door.gate.limiter(*key)
    stock = limiter.stock
    assert door.gate.ask(limiter, key).ok
    assert not door.gate.ask(limiter, key).ok
    door.gate.take_back(limiter, key, 1, stock)
    assert door.gate.limiter("api", "topics", "ada").wait(timeout=2)
    door.close()


def test_facts_of_one_minute_are_one_row(facts: MemoryFacts, door: QuotaDoor) -> None:
    for _ in range(3):
        door.gate.admit("api", "topics", "ada")
        door.tell()
    at_ms = facts.batches[0].at_ms
    assert isinstance(at_ms, int)
    _book(facts)
    _book(facts)
    assert sum(QuotaUse.objects.values_list("admitted", flat=True)) == 6
    assert QuotaUse.objects.count() <= 2


def _book(facts: MemoryFacts) -> None:
    booking = Booking()
    booking.add(facts.batches)
    booking.write()


class _Passing(ManualClock):
    """Time passes as it is waited for."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self._meanwhile()
        self.advance(seconds)
        return event.is_set()


def test_newer_rules_are_told_at_once_and_who_does_something_tells_every_two_seconds(
    make_policy: MakePolicy, plane: ControlPlane, facts: MemoryFacts
) -> None:
    clock = _Passing(lambda: None)
    made = QuotaDoor("here", plane, facts, clock=clock)
    assert (made.wait(), clock.monotonic()) == (False, IDLE_S), "who does nothing has little to tell"
    made.gate.admit("api", "topics", "ada")
    assert (made.wait(), clock.monotonic()) == (False, IDLE_S + TELL_S)
    made.tell()
    assert (made.wait(), clock.monotonic()) == (False, IDLE_S + 2 * TELL_S), "its rates fall"
    made.tell()
    assert (made.wait(), clock.monotonic()) == (False, 2 * IDLE_S + 2 * TELL_S)
    make_policy("everyone", 10)
    _in_force(plane)
    clock = _Passing(lambda: made.node.turn())  # noqa: PLW0108 - it is made below
    made = QuotaDoor("here", plane, facts, clock=clock)
    began = clock.monotonic()
    assert made.wait() is False
    assert clock.monotonic() - began < 1
    made.close()
    assert made.wait() is True
