from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

from engine.core.clock import SystemClock
from hbus_console.api.housekeeping import IdempotencyExpiry
from hbus_console.api.models import IdempotencyRecord
from hbus_console.keeper import duties
from hbus_console.keeper.duties import all_duties
from hbus_console.keeper.keeper import HUNG_AFTER_S, Keeper
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
        self.go_on.wait(10)


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
    assert {
        "outbox-relay",
        "delay-mover",
        "fact-collector",
        "dead-letter-collector",
        "lag-sampler",
        "stream-retention",
        "ledger-retention",
        "audit-anchor",
        "inbox-retention",
        "idempotency-expiry",
        "hotel-load",
    } <= set(names)


@pytest.mark.django_db(transaction=True, databases=["default", "ledger"])
def test_every_duty_ticks_on_an_empty_installation() -> None:
    for duty in all_duties():
        duty.tick()


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
    assert first.entered.wait(10)
    other.start()
    eventually(lambda: other.report()["duties"][0]["state"] == "elsewhere")
    assert second.ticks == 0
    one.stop(5)
    assert second.entered.wait(10)
    other.stop(5)


def test_it_stamps_its_duties_and_leaves_in_good_order() -> None:
    counting = Counting()
    counting.go_on.set()
    keeper = Keeper([counting])
    keeper.start()
    assert counting.entered.wait(10)
    # The first stamp may come after the first tick.
    eventually(lambda: bool(read_nodes(store.client(), django_settings.HBUS_PREFIX, SystemClock())))
    eventually(lambda: node().detail["duties"][0]["name"] == "counting")
    assert node().role == "keeper"
    keeper.stop(5)
    assert read_nodes(store.client(), django_settings.HBUS_PREFIX, SystemClock()) == []


def test_a_hung_duty_makes_the_stamp_old(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting()
    keeper = Keeper([counting])
    keeper.start()
    assert counting.entered.wait(10)
    now_ms = SystemClock().now_ms()
    assert abs(keeper.turned_ms() - now_ms) < 2_000
    monkeypatch.setattr("hbus_console.keeper.keeper.HUNG_AFTER_S", -1.0)
    threading.Event().wait(0.02)
    assert keeper.turned_ms() < SystemClock().now_ms()
    assert HUNG_AFTER_S > 0
    counting.go_on.set()
    keeper.stop(5)


def test_forgotten_idempotency_keys_are_removed() -> None:
    record = IdempotencyRecord.objects.create(actor="a", route="POST /x", key="k", request_digest="d")
    IdempotencyExpiry().tick()
    assert IdempotencyRecord.objects.count() == 1
    IdempotencyRecord.objects.filter(pk=record.pk).update(created_at=datetime.now(UTC) - timedelta(hours=25))
    IdempotencyExpiry().tick()
    assert not IdempotencyRecord.objects.exists()
