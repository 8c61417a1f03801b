"""The alert on a subscription that nobody serves."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from engine.core.clock import ManualClock
from hbus_console.alerts.evaluation import AlertEvaluator
from hbus_console.alerts.kinds import kinds
from hbus_console.alerts.models import Alert
from hbus_console.cluster import probes
from hbus_console.subscriptions.models import Subscription
from hbus_console.wiring import store
from tests.hbus_console.alerts.conftest import Watch, rule
from tests.hbus_console.subscriptions.test_draining import stamp
from tests.hbus_console.ui.conftest import subscription
from tests.hbus_console.ui.conftest import topic as make_topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def watch(own_keys: None) -> Watch:
    """Watching ``billing`` on ``booking.created`` for long enough; its rule is made last, so nothing was measured."""
    subscription(make_topic("booking.created"), "billing")
    found = Watch(ManualClock())
    found.go(None, rounds=8)
    rule("no_consumer", 60, clear_s=20)
    return found


def test_it_fires_a_minute_after_nobody_was_first_seen_and_ends_with_a_consumer(watch: Watch, prefix: str) -> None:
    assert watch.go(None, rounds=6) == []
    assert watch.go(None) == ["firing"]
    assert Alert.objects.get().value == 60
    stamp(prefix, "c1", in_flight=0)
    assert watch.go(None) == ["firing"]
    assert kinds()["no_consumer"].said(Alert.objects.get().value) == "a consumer runs it"
    assert watch.go(None, rounds=2) == ["resolved"]
    # Silent by now, it serves nobody; the time begins anew.
    stamp(prefix, "c1", in_flight=0, age_ms=60_000)
    assert watch.go(None, rounds=6) == ["resolved"]
    assert watch.go(None) == ["resolved", "firing"]


def test_a_restarted_keeper_goes_on_with_what_fires_and_begins_the_rest_anew(watch: Watch) -> None:
    watch.go(None, rounds=3)
    watch.evaluator = AlertEvaluator(clock=watch.clock)
    assert watch.go(None, rounds=6) == []
    assert watch.go(None) == ["firing"]
    watch.evaluator = AlertEvaluator(clock=watch.clock)
    assert watch.go(None) == ["firing"]
    assert Alert.objects.get().value == 70


def test_a_pause_is_not_counted(watch: Watch) -> None:
    watch.go(None, rounds=5)
    Subscription.objects.update(paused=True)
    watch.go(None, rounds=10)
    Subscription.objects.update(paused=False)
    assert watch.go(None, rounds=6) == []
    assert watch.go(None) == ["firing"]
    Subscription.objects.update(paused=True)
    assert watch.go(None) == ["resolved"]


def test_while_the_store_cannot_be_asked_nothing_begins_and_nothing_ends(
    watch: Watch, settings: Settings, request: pytest.FixtureRequest
) -> None:
    def ask(address: str) -> None:
        store.close()
        probes.client.cache_clear()
        settings.REDIS_URL = address

    request.addfinalizer(probes.client.cache_clear)
    address = settings.REDIS_URL
    ask("redis://127.0.0.1:1/0")
    assert watch.go(None, rounds=20) == []
    ask(address)
    assert watch.go(None, rounds=7) == ["firing"]
    ask("redis://127.0.0.1:1/0")
    assert watch.go(None, rounds=20) == ["firing"]
    assert Alert.objects.get().value == 60
