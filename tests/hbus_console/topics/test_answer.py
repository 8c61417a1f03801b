"""The sentence on top of a topic's page asks whether anybody runs its subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from django.test import Client

from engine.bus.breaker_board import Pauses
from engine.core.clock import SystemClock
from hbus_console.messages.models import LagSample
from hbus_console.nodes.stamps import Node
from hbus_console.subscriptions import services, standing
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.kept import kept
from tests.hbus_console.topics.conftest import EDITOR, OPERATOR

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys", "team")]

ONE = ("booking.created", "billing")


@pytest.fixture(autouse=True)
def billing(topic: Topic, committed: Callable[..., None]) -> None:
    now_ms = SystemClock().now_ms()
    kept(now_ms)
    committed(lambda: services.create_subscription(EDITOR, SubscriptionDraft(*ONE, "Reservations")))
    Subscription.objects.update(handler_name="hotel.handlers:bill")
    LagSample.objects.create(
        at_ms=now_ms, topic=ONE[0], subscription=ONE[1], waiting=0, in_flight=0, retrying=0, oldest_ms=None
    )


@pytest.fixture
def client(signed_in: Callable[..., Client]) -> Client:
    return signed_in()


@pytest.fixture
def answer(client: Client, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def ask(state: str = "running", *, silent: bool = False, groups: Sequence[str] = ONE[1:]) -> str:
        status = {"topic": ONE[0], "state": state, "rate": 0.0, "in_flight": 0}
        consumers = [{**status, "group": group} for group in groups]
        node = Node("h:consumer:0", "consumer", "0", "h", 1, 0, 0, silent, {"consumers": consumers})
        monkeypatch.setattr(standing, "living", lambda: ([node], ""))
        said: str = client.get(f"/topics/{ONE[0]}/").context["page"].answer
        return said

    return ask


def test_a_subscription_that_nobody_runs_does_not_keep_up(answer: Callable[..., str]) -> None:
    assert answer() == "Its one subscription keeps up, and nothing is published just now."
    for unserved in (answer("stopped"), answer("draining"), answer(silent=True)):
        assert unserved == "No consumer runs billing: messages wait."


def test_while_the_store_is_away_nobody_knows(
    answer: Callable[..., str], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing.probes, "obstacle", lambda: "The store does not answer.")
    assert answer() == "The store cannot be asked: nobody knows whether its readers keep up."
    page = client.get("/subscriptions/").content.decode()
    assert "1 not known: the store cannot be asked" in page
    assert "all keep up" not in page
    assert '<span class="badge warn">unknown</span>' in page


def test_nor_does_one_whose_breaker_is_open_or_that_is_paused(
    answer: Callable[..., str], committed: Callable[..., None]
) -> None:
    bus.breakers().trip(*ONE, "node-1", "away", Pauses(60_000, 60_000))
    assert answer() == "The breaker of billing is open: nothing is delivered meanwhile."
    bus.breakers().force_trial(*ONE)
    bus.breakers().probe(*ONE, "node-1")
    assert answer() == "The breaker of billing is open: one message is being tried."
    other = (ONE[0], "another")
    Subscription.objects.create(
        topic=Subscription.objects.get().topic, group=other[1], handler_name="hotel.handlers:bill", breaker_failures=5
    )
    bus.breakers().trip(*other, "node-1", "away", Pauses(60_000, 60_000))
    assert answer(groups=("another", ONE[1])) == (
        "The breakers of another, billing are open: nothing is delivered meanwhile, "
        "but for one message of billing that is being tried."
    )
    Subscription.objects.filter(group=other[1]).delete()
    committed(lambda: services.pause_subscription(OPERATOR, *ONE, "silence"))
    assert answer() == "billing is paused."
