"""Where a store does not answer, how all topics stand in the archive is told after one wait for it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from engine.bus import Rereads
from engine.core.errors import Unavailable
from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.cluster import probes
from hbus_console.pipelines import silent, spools, standing
from hbus_console.pipelines.services import archive_topic
from hbus_console.pipelines.spools import unspooled_of
from hbus_console.pipelines.standing import Standings, Waiting
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import OTHER, TOPIC, WHY

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


class Clock:
    """Time stands still but where a test moves it."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(silent, "time", made)
    return made


@pytest.fixture
def both(governor: Actor) -> list[Topic]:
    for name in (TOPIC, OTHER):
        archive_topic(governor, name, WHY)
    return list(Topic.objects.select_related("archived").order_by("name"))


@pytest.fixture
def asked(both: list[Topic], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that the store was asked about, which does not answer."""
    found: list[str] = []

    def extents(topic: str) -> Any:
        found.append(topic)
        raise Unavailable("The store did not answer in time.", remedy="Look at it.")

    admin = bus.admin()
    assert isinstance(admin, Rereads)
    monkeypatch.setattr(type(admin), "extents", lambda self, topic: extents(topic))
    return found


def test_one_that_did_not_answer_is_not_waited_for_again(both: list[Topic], asked: list[str], clock: Clock) -> None:
    told = Standings(lake().state())
    assert [told.waiting(topic) for topic in both] == [Waiting(None, None)] * 2
    assert asked == [TOPIC]
    # It may be back.
    clock.now_s += 2
    told.waiting(both[1])
    assert asked == [TOPIC, OTHER]


@pytest.mark.parametrize("address", ["/archive/", "/api/v1/archive/topics"])
def test_a_page_does_not_ask_a_store_that_is_known_to_hang(
    asked: list[str], address: str, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    client.force_login(User.objects.get(username="gov"))
    monkeypatch.setattr(probes, "obstacle", lambda: "The store does not answer.")
    answer = client.get(address)
    assert answer.status_code == 200
    assert asked == []
    if address == "/archive/":
        # Of each of the two, in a wide window and in a narrow one.
        assert answer.content.decode().count("not known") == 4
    else:
        assert [each["waiting"] for each in answer.json()["results"]] == [None, None]


def test_neither_is_one_that_forgets_what_is_settled(
    both: list[Topic], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def lag(self: object, topic: str, group: str) -> Any:
        asked.append(topic)
        raise Unavailable("nsqd did not answer in time.", remedy="Look at it.")

    monkeypatch.setattr(type(bus.admin()), "lag", lag)
    for module in (spools, standing):
        monkeypatch.setattr(module, "spooled_on", lambda topic: list(topic.carriers))
    told = Standings(lake().state())
    assert [told.waiting(topic).unspooled for topic in both] == [None, None]
    assert asked == [TOPIC]
    assert unspooled_of(both[1]) is None
    assert asked == [TOPIC, OTHER]
