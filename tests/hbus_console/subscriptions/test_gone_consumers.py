"""Names that consumers left in a group: shown on the page, and forgotten by the keeper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from engine.bus.config import BusConfig
from engine.bus.registry import open_transport
from engine.bus.transport import Settlement
from engine.core.errors import Unavailable
from hbus_console.consumers.names import ConsumerNameExpiry
from hbus_console.keeper.duties import all_duties
from hbus_console.nodes.beat import NodeBeat
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
from tests.hbus_console.topics.conftest import EDITOR

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

ONE = ("booking.created", "billing")


@pytest.fixture(autouse=True)
def _read_by_three(topic: Topic, prefix: str, committed: Callable[..., None]) -> None:
    """One consumer reports, one is gone with a message in hand, one is gone without."""
    draft = SubscriptionDraft(topic=ONE[0], group=ONE[1], owner="Reservations")
    committed(lambda: services.create_subscription(EDITOR, draft))
    for name in ("alive", "dead-hand", "old-pod"):
        shared_producer().publish(ONE[0], {"n": name})
        receiver = bus.transport().receiver(*ONE, consumer=name, lease_ms=30_000)
        (delivery,) = receiver.receive(1, 1)
        if name != "dead-hand":
            receiver.settle([Settlement(delivery.receipt)])
        receiver.close()
    status = {"topic": ONE[0], "group": ONE[1], "state": "running", "rate": 0.0, "handled": 1, "failed": 0}
    NodeBeat(store.client(), prefix, name="alive", role="consumer", detail=lambda: {"consumers": [status]}).beat()


def names() -> list[str]:
    return [each.name for each in bus.admin().consumer_names(*ONE)]  # type: ignore[attr-defined]


def test_the_page_lists_who_is_gone(signed_in: Callable[..., Client]) -> None:
    answer = signed_in().get(reverse("subscriptions:detail", args=ONE))
    assert [(line.name, line.pending) for line in answer.context["page"].gone] == [("dead-hand", 1), ("old-pod", 0)]
    shown = answer.content.decode()
    assert "2 names of consumers that are gone" in shown
    assert "stays until others have settled what it had" in shown


def test_the_keeper_forgets_a_name_when_it_is_old_and_has_nothing_pending() -> None:
    (duty,) = (duty for duty in all_duties() if isinstance(duty, ConsumerNameExpiry))
    duty.tick()
    assert names() == ["alive", "dead-hand", "old-pod"]
    ConsumerNameExpiry(bus.admin, idle_ms=0).tick()
    assert names() == ["dead-hand"]
    assert bus.admin().lag(*ONE).in_flight == 1


def test_a_group_that_is_lost_keeps_no_other_from_being_looked_at(committed: Callable[..., None]) -> None:
    draft = SubscriptionDraft(topic=ONE[0], group="aaa", owner="Reservations")
    committed(lambda: services.create_subscription(EDITOR, draft))
    bus.admin().delete_group(ONE[0], "aaa")
    ConsumerNameExpiry(bus.admin, idle_ms=0).tick()
    assert names() == ["dead-hand"]


def test_a_store_that_is_away_is_told() -> None:
    away = open_transport(BusConfig(type="redis_stream", url="redis://127.0.0.1:1/0"))
    with pytest.raises(Unavailable, match=r"The consumers could not be looked at: billing on booking\.created"):
        ConsumerNameExpiry(lambda _: away.admin, idle_ms=0).tick()
    away.close()
