"""A drain: what counts as standing still, and how API, page and command tell."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from engine.bus.transport import Receiver, Settlement
from engine.core.clock import ManualClock, SystemClock
from hbus_console.audit.models import AuditEntry
from hbus_console.nodes.beat import NodeBeat
from hbus_console.nodes.stamps import SILENT_AFTER_MS
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
from tests.hbus_console.topics.conftest import EDITOR, OPERATOR, VIEWER

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

ONE = ("booking.created", "billing")
API = "topics/booking.created/subscriptions/billing/drain"


class Held:
    """Three messages published, two of them in the hands of a consumer; its subscription is there."""

    def __init__(self, receiver: Receiver, receipts: list[str]) -> None:
        self._receiver, self._receipts = receiver, receipts

    def settle(self, number: int) -> None:
        done, self._receipts = self._receipts[:number], self._receipts[number:]
        assert all(self._receiver.settle([Settlement(receipt) for receipt in done]))


@pytest.fixture
def held(topic: Topic, committed: Callable[..., None]) -> Iterator[Held]:
    draft = SubscriptionDraft(topic=ONE[0], group=ONE[1], owner="Reservations")
    committed(lambda: services.create_subscription(EDITOR, draft))
    for number in range(3):
        shared_producer().publish(ONE[0], {"n": number})
    receiver = bus.transport().receiver(*ONE, consumer="c1", lease_ms=30_000)
    yield Held(receiver, [each.receipt for each in receiver.receive(2, 1)])
    receiver.close()


def stamp(prefix: str, name: str, *, in_flight: int, unsettled: int = 0, age_ms: int = 0) -> None:
    """What a worker with the subscription says of itself."""
    status = {"topic": ONE[0], "group": ONE[1], "state": "paused", "in_flight": in_flight, "unsettled": unsettled}
    clock = ManualClock(start_ms=SystemClock().now_ms() - age_ms)
    detail = {"consumers": [status, {**status, "group": "another", "in_flight": 9}]}
    NodeBeat(store.client(), prefix, name=name, role="consumer", clock=clock, detail=lambda: detail).beat()


def test_it_stands_still_when_neither_store_nor_any_node_has_anything_in_hand(
    held: Held, prefix: str, committed: Callable[..., None]
) -> None:
    committed(lambda: services.drain(OPERATOR, *ONE, "release"))
    status = services.drain_status(VIEWER, *ONE)
    assert (status.paused, status.in_flight, status.unsettled, status.drained) == (True, 2, 3, False)
    assert status.sentence == "Draining: 2 in flight. 1 waits."
    held.settle(2)
    # A handler that outlived its lease, and a decision on its way: the store knows of neither
    stamp(prefix, "here", in_flight=1)
    stamp(prefix, "there", in_flight=0, unsettled=2)
    status = services.drain_status(VIEWER, *ONE)
    assert (status.in_flight, status.drained, dict(status.at_work)) == (0, False, {"here": 1, "there": 2})
    assert status.sentence == "Draining: 3 in flight (1 on here, 2 on there). 1 waits."
    stamp(prefix, "here", in_flight=0)
    stamp(prefix, "there", in_flight=0)
    status = services.drain_status(VIEWER, *ONE)
    assert (status.drained, status.sentence) == (True, "Drained: nothing is in flight. 1 waits.")


def test_a_node_that_fell_silent_is_named_and_not_waited_for(
    held: Held, prefix: str, committed: Callable[..., None]
) -> None:
    committed(lambda: services.drain(OPERATOR, *ONE, "release"))
    held.settle(2)
    stamp(prefix, "gone", in_flight=4, age_ms=SILENT_AFTER_MS + 5_000)
    status = services.drain_status(VIEWER, *ONE)
    assert (status.drained, list(status.silent)) == (True, ["gone"])


def test_the_api_answers_202_until_it_stands_still(
    held: Held, calling: Callable[..., Callable[..., Any]], committed: Callable[..., None]
) -> None:
    call = calling()
    answers: list[Any] = []

    def ask() -> None:
        answers.append(call("POST", API, {"reason": "release"}))

    committed(ask)
    ask()
    assert [answer.status_code for answer in answers] == [202, 202]
    assert (answers[1].json()["in_flight"], answers[1].json()["unsettled"]) == (2, 3)
    held.settle(2)
    ask()
    assert (answers[-1].status_code, answers[-1].json()["drained"]) == (200, True)
    assert call("GET", API).json() == answers[-1].json()
    # It was asked for three times and done once
    assert AuditEntry.objects.filter(action="subscription.drain").count() == 1


def test_with_the_group_gone_a_drain_is_taken_and_its_counts_are_unknown(
    held: Held, calling: Callable[..., Callable[..., Any]]
) -> None:
    bus.admin().delete_group(*ONE)
    answer = calling()("POST", API, {"reason": "release"})
    assert (answer.status_code, answer.json()["in_flight"], answer.json()["drained"]) == (202, None, False)
    assert services.subscription(*ONE).paused


def test_the_page_says_draining_and_asks_again_until_drained(
    held: Held, signed_in: Callable[..., Client], committed: Callable[..., None]
) -> None:
    client, asks = signed_in(), reverse("subscriptions:drain-state", args=ONE)
    page = reverse("subscriptions:detail", args=ONE)
    assert "drain-state" not in client.get(page).content.decode()
    committed(lambda: services.drain(OPERATOR, *ONE, "release"))
    shown = client.get(page).content.decode()
    assert "Draining: 2 in flight." in shown
    assert f'hx-get="{asks}"' in shown
    held.settle(1)
    part = client.get(asks)
    assert "Draining: 1 in flight." in part.content.decode()
    assert "HX-Refresh" not in part.headers
    held.settle(1)
    part = client.get(asks)
    assert part.headers["HX-Refresh"] == "true"
    shown = client.get(page).content.decode()
    assert "Drained: nothing is in flight." in shown
    assert asks not in shown


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the commit runs at once: a test's transaction never commits."""
    monkeypatch.setattr("hbus_console.topics.transport_objects.transaction.on_commit", lambda act, **_: act())


@pytest.mark.usefixtures("at_once")
def test_the_command_waits_until_it_stands_still(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    settling = threading.Timer(0.7, lambda: held.settle(2))
    settling.start()
    call_command("drain", *ONE, "--reason", "release", "--timeout", "20")
    settling.join()
    assert capsys.readouterr().out.splitlines() == [
        "Draining: 2 in flight. 1 waits.",
        "Drained: nothing is in flight. 1 waits.",
    ]
    assert AuditEntry.objects.get(action="subscription.drain").reason == "release"


@pytest.mark.usefixtures("at_once")
def test_the_command_ends_with_1_when_the_time_is_up_and_it_stays_held(
    held: Held, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("drain", *ONE, "--reason", "release", "--timeout", "0", "--json")
    said = capsys.readouterr()
    assert ended.value.code == 1
    assert json.loads(said.out)["in_flight"] == 2
    assert "Not drained within 0 seconds. It stays held" in said.err
    assert services.subscription(*ONE).paused
