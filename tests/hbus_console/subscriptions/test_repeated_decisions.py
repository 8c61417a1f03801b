"""A decision sent again under its key, by API or form, after the store refused it or its answer was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from engine.bus.consumer import Consumer
from hbus_console.access.acts import Role
from hbus_console.api import idempotency
from hbus_console.api.models import IdempotencyRecord
from hbus_console.audit.models import AuditEntry
from hbus_console.subscriptions import services
from hbus_console.subscriptions.models import Subscription
from hbus_console.wiring import store
from tests.engine.bus.transports.proxy import Proxy
from tests.hbus_console.subscriptions.test_lost_decisions import HEAD, keeper, told, way
from tests.hbus_console.subscriptions.test_order import ONE, billing, facts, parked
from tests.hbus_console.topics.conftest import EDITOR, OPERATOR

__all__ = ["billing", "facts", "parked", "told", "way"]

pytestmark = [
    pytest.mark.django_db(databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "way", "team"),
]

KEY = "0f3c1d"
UNPARK = {"key": "room-1", "head": "skip", "reason": "the room was sold"}
OPEN = {"act": "open", "reason": "the provider asked for it"}
#: Sends a decision under :data:`KEY`, from a form or as a program: ``send("unpark", UNPARK)``.
Send = Callable[[str, dict[str, str]], Any]


@pytest.fixture
def client(signed_in: Callable[..., Client]) -> Client:
    return signed_in(Role.OPERATOR)


@pytest.fixture(params=["api", "form"])
def send(request: pytest.FixtureRequest, calling: Callable[..., Any], client: Client) -> Send:
    call = calling(Role.OPERATOR)
    client.raise_request_exception = False
    topic, group = ONE

    def by_api(act: str, values: dict[str, str]) -> Any:
        return call("POST", f"topics/{topic}/subscriptions/{group}/{act}", values, **{"Idempotency-Key": KEY})

    def by_form(act: str, values: dict[str, str]) -> Any:
        marks = {"HBUS-Form": "1", "Idempotency-Key": KEY, "X-Correlation-ID": f"form-{KEY}"}
        return client.post(f"/subscriptions/{topic}/{group}/{act}/", values, headers=marks)

    return by_api if request.param == "api" else by_form


@pytest.fixture
def refusing() -> Iterator[Callable[[bool], None]]:
    """Has the store refuse writes, as it does without the replicas that it must have."""

    def refuse(yes: bool) -> None:
        store.client().config_set("min-replicas-to-write", int(yes))

    yield refuse
    refuse(False)


def became(client: Client) -> str:
    asked = {"key": KEY, "path": "/subscriptions/"}
    state: str = client.post("/audit/posted/", asked, headers={"HBUS-Form": "1"}).json()["state"]
    return state


def test_an_unparking_that_the_store_refused_is_done_by_its_repeat(
    parked: Consumer, send: Send, client: Client, refusing: Callable[[bool], None], told: Callable[[], list[str]]
) -> None:
    parked.stop(5.0)
    refusing(True)
    assert send("unpark", UNPARK).status_code == 503
    assert told() == ["unpark_skip", "unpark_skip.failed"]
    refusing(False)
    assert send("unpark", UNPARK).status_code < 300
    assert keeper().parked(*ONE) == []
    assert told() == ["unpark_skip", "unpark_skip.failed", "unpark_skip"]


def test_a_breaker_that_the_store_refused_to_set_is_set_by_the_repeat(
    billing: Subscription, send: Send, client: Client, refusing: Callable[[bool], None], told: Callable[[], list[str]]
) -> None:
    refusing(True)
    assert send("breaker", OPEN).status_code == 503
    assert told() == ["breaker_open", "breaker_open.failed"]
    refusing(False)
    assert send("breaker", OPEN).status_code < 300
    assert services.breaker(OPERATOR, *ONE).forced
    assert told() == ["breaker_open", "breaker_open.failed", "breaker_open"]


@pytest.mark.parametrize("send", ["form"], indirect=True)
def test_of_a_form_whose_outcome_nobody_knows_it_is_said_so_and_its_repeat_finds_it_out(
    parked: Consumer, way: Proxy, send: Send, client: Client, told: Callable[[], list[str]]
) -> None:
    parked.stop(5.0)
    way.cut_at = (HEAD,)
    assert send("unpark", UNPARK).status_code == 504
    assert became(client) == "unknown"
    assert send("unpark", UNPARK).status_code == 204
    assert became(client) == "done"
    assert told() == ["unpark_skip", "unpark_skip.unknown", "unpark_skip.done"]


@pytest.mark.parametrize("send", ["api"], indirect=True)
def test_a_program_finds_out_by_the_repeat_what_nobody_knew(
    parked: Consumer, way: Proxy, send: Send, told: Callable[[], list[str]]
) -> None:
    parked.stop(5.0)
    way.cut_at = (HEAD,)
    assert send("unpark", UNPARK).status_code == 504
    first, again = send("unpark", UNPARK), send("unpark", UNPARK)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    assert told() == ["unpark_skip", "unpark_skip.unknown", "unpark_skip.done"]


def test_a_breaker_that_was_set_without_an_answer_is_found_set_by_the_repeat(
    billing: Subscription, way: Proxy, send: Send, told: Callable[[], list[str]]
) -> None:
    # The store knows the scripts from then on.
    services.set_breaker(EDITOR, *ONE, "open", "drill")
    services.set_breaker(EDITOR, *ONE, "close", "drill")
    before = len(told())
    way.lose_in = 2
    assert send("breaker", OPEN).status_code in (503, 504)
    assert send("breaker", OPEN).status_code < 300
    assert told()[before:] == ["breaker_open", "breaker_open.unknown", "breaker_open.done"]


def test_a_decision_whose_request_died_is_found_done_by_the_repeat(
    parked: Consumer, send: Send, client: Client, told: Callable[[], list[str]], request: pytest.FixtureRequest
) -> None:
    parked.stop(5.0)
    assert send("unpark", UNPARK).status_code < 300
    died = idempotency.ABANDONED_AFTER + timedelta(seconds=1)
    request_id = AuditEntry.objects.get(action="subscription.unpark_skip").request_id.encode()
    IdempotencyRecord.objects.update(status=0, response=request_id)
    if "form" in request.node.name:
        assert became(client) == "working"
    IdempotencyRecord.objects.update(created_at=F("created_at") - died)
    if "form" in request.node.name:
        assert became(client) == "unknown"
    assert send("unpark", UNPARK).status_code < 300
    assert told() == ["unpark_skip", "unpark_skip.unknown", "unpark_skip.done"]
