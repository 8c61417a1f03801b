from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings as django_settings
from django.db import connections
from pytest_django import Settings

from engine.core.clock import ManualClock, SystemClock
from hbus_console import metrics
from hbus_console.api.housekeeping import IdempotencyExpiry
from hbus_console.api.models import IdempotencyRecord
from hbus_console.keeper import duties
from hbus_console.keeper.duties import all_duties
from hbus_console.keeper.keeper import GIVEN_UP_AFTER_S, HUNG_AFTER_S, Keeper
from hbus_console.nodes.stamps import Node, read_nodes
from hbus_console.registry.declaration import Feature
from hbus_console.registry.loading import features
from hbus_console.wiring import store

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_keys(settings: Settings, prefix: str) -> Iterator[None]:
    store.close()
    settings.HBUS_PREFIX = prefix
    yield
    store.close()


class Counting:
    """A duty that counts; ``entered`` is set by its first tick, which waits for ``go_on``."""

    interval_s = 0.01

    def __init__(self, name: str = "counting") -> None:
        self.name = name
        self.ticks = 0
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def tick(self) -> None:
        self.ticks += 1
        self.entered.set()
        self.go_on.wait(60)


def node() -> Node:
    prefix = django_settings.HBUS_PREFIX
    (found,) = read_nodes(store.client(), prefix, SystemClock())
    return found


def eventually(truth: Callable[[], bool]) -> None:
    tries = threading.Event()
    for _ in range(2_000):
        if truth():
            return
        tries.wait(0.005)
    raise AssertionError("it never became true")


def test_all_duties_are_there_once_each_with_an_interval() -> None:
    made = all_duties()
    names = [duty.name for duty in made]
    assert len(set(names)) == len(names)
    assert all(duty.interval_s > 0 for duty in made)
    assert [name for name in names if not re.fullmatch(r"[a-z]+(-[a-z]+)*", name)] == []
    assert {
        "outbox-relay",
        "delay-mover",
        "fact-collector",
        "dead-letter-collector",
        "lag-sampler",
        "stream-retention",
        "topic-reconciler",
        "ledger-retention",
        "evidence-retention",
        "audit-anchor",
        "inbox-retention",
        "idempotency-expiry",
        "hotel-load",
    } <= set(names)


@pytest.mark.django_db(transaction=True, databases=["default", "ledger"])
def test_every_duty_ticks_on_an_empty_installation() -> None:
    for duty in all_duties():
        duty.tick()


def test_the_keeper_counts_the_evidence_that_was_lost_on_the_way() -> None:
    (collector,) = [duty for duty in all_duties() if duty.name == "fact-collector"]
    assert vars(collector)["_count"] is metrics.count


def test_a_feature_brings_its_duties_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Feature("toy", duties=(f"{__name__}:Counting",))
    monkeypatch.setattr(duties, "features", lambda: (*features(), toy))
    assert [duty.name for duty in all_duties()].count("counting") == 1


def test_two_keepers_share_a_duty_and_the_second_takes_over_when_the_first_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.core.duties.TAKEOVER_S", 0.02)
    first, second = Counting(), Counting()
    first.go_on.set()
    second.go_on.set()
    one, other = Keeper([first]), Keeper([second])
    one.start()
    assert first.entered.wait(60)
    other.start()
    eventually(lambda: other.report()["duties"][0]["state"] == "elsewhere")
    assert second.ticks == 0
    one.stop(5)
    assert second.entered.wait(60)
    other.stop(5)


def test_it_stamps_its_duties_and_leaves_in_good_order() -> None:
    counting = Counting()
    counting.go_on.set()
    keeper = Keeper([counting])
    keeper.start()
    assert counting.entered.wait(60)
    # The first stamp may come after the first tick.
    eventually(lambda: bool(read_nodes(store.client(), django_settings.HBUS_PREFIX, SystemClock())))
    eventually(lambda: node().detail["duties"][0]["name"] == "counting")
    assert node().role == "keeper"
    keeper.stop(5)
    assert read_nodes(store.client(), django_settings.HBUS_PREFIX, SystemClock()) == []


def test_a_hung_duty_makes_the_stamp_old() -> None:
    clock = ManualClock(SystemClock().now_ms())
    counting = Counting()
    keeper = Keeper([counting], clock)
    keeper.start()
    assert counting.entered.wait(60)
    begun_ms = clock.now_ms()
    clock.advance(HUNG_AFTER_S - 1)
    assert keeper.turned_ms() == clock.now_ms()
    clock.advance(2)
    # When it should have moved.
    assert keeper.turned_ms() == begun_ms + round(counting.interval_s * 1000)
    counting.go_on.set()
    eventually(lambda: counting.ticks > 1 or bool(clock.advance(1)))
    assert keeper.turned_ms() == clock.now_ms()
    keeper.stop(5)


def test_one_hung_duty_of_several_shows_and_does_not_end_the_process_at_once() -> None:
    # Given a duty that does not return, and one that does
    clock = ManualClock(SystemClock().now_ms())
    stuck, other = Counting("stuck"), Counting("other")
    other.go_on.set()
    keeper = Keeper([stuck, other], clock)
    keeper.start()
    assert stuck.entered.wait(60)
    # When it has hung for long, then the node lives, says which one hangs, and does the other
    for _ in range(round(HUNG_AFTER_S) + 30):
        ticks = other.ticks
        clock.advance(1)
        eventually(lambda ticks=ticks: other.ticks > ticks)  # type: ignore[misc]
    assert keeper.turned_ms() == clock.now_ms()
    assert [line["state"] for line in keeper.report()["duties"]] == ["hung", "running"]
    # Only a new process ends that thread: at last the node falls silent for it.
    clock.advance(GIVEN_UP_AFTER_S)
    assert keeper.turned_ms() < clock.now_ms()
    stuck.go_on.set()
    eventually(lambda: keeper.report()["duties"][0]["state"] == "running" or bool(clock.advance(1)))
    keeper.stop(5)


class Asking:
    """A duty whose database connection has met an error in each tick."""

    name = "asking"
    interval_s = 0.01

    def __init__(self) -> None:
        self.met_before: list[bool] = []

    def tick(self) -> None:
        connection = connections["default"]
        connection.ensure_connection()
        self.met_before.append(connection.errors_occurred)
        connection.errors_occurred = True


@pytest.mark.django_db(transaction=True)
def test_connections_are_looked_at_around_every_tick_of_every_duty() -> None:
    asking = Asking()
    keeper = Keeper([asking])
    keeper.start()
    eventually(lambda: len(asking.met_before) >= 3)
    keeper.stop(5)
    assert not any(asking.met_before)


def test_no_duty_looks_after_its_connections_by_itself() -> None:
    for duty in all_duties():
        assert "fresh_connections" not in inspect.getsource(inspect.getmodule(type(duty)) or duty.tick), duty.name


def test_forgotten_idempotency_keys_are_removed() -> None:
    record = IdempotencyRecord.objects.create(actor="a", route="POST /x", key="k", request_digest="d")
    IdempotencyExpiry().tick()
    assert IdempotencyRecord.objects.count() == 1
    IdempotencyRecord.objects.filter(pk=record.pk).update(created_at=datetime.now(UTC) - timedelta(hours=25))
    IdempotencyExpiry().tick()
    assert not IdempotencyRecord.objects.exists()
