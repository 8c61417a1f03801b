"""A decision that the store carried out, and whose answer was lost on the way back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from engine.bus.conformance.running import FactRecorder
from engine.bus.consumer import Consumer
from engine.bus.partitions import Partitioned
from engine.bus.policy import RetryPolicy, SubscriptionPolicy
from engine.core.errors import Conflict, OutcomeUnknown
from hbus_console.access.acts import Role
from hbus_console.api import idempotency
from hbus_console.api.models import IdempotencyRecord
from hbus_console.audit import words
from hbus_console.audit.decisions import decided_at
from hbus_console.audit.models import AuditEntry
from hbus_console.subscriptions import services
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import set_breaker
from hbus_console.wiring import bus, store
from tests.engine.bus.kit import until
from tests.engine.bus.transports.proxy import Proxy
from tests.hbus_console.subscriptions.test_order import ONE, billing, facts, parked
from tests.hbus_console.topics.conftest import EDITOR, OPERATOR

__all__ = ["billing", "facts", "parked"]

pytestmark = [
    pytest.mark.django_db(databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "way", "team"),
]

#: In the answer to an unparking, and in no answer before it.
HEAD = b'"partitionkey":"room-1"'
BREAKER = f"topics/{ONE[0]}/subscriptions/{ONE[1]}/breaker"
OPEN, KEY = {"act": "open", "reason": "the provider asked for it"}, {"Idempotency-Key": "key-1"}


@pytest.fixture
def way(own_keys: None, settings: Settings, redis_url: str) -> Iterator[Proxy]:
    """What lies between the console and the store."""
    port = redis_url.rpartition(":")[2].partition("/")[0]
    proxy = Proxy(int(port))
    settings.REDIS_URL = redis_url.replace(f":{port}", f":{proxy.port}")
    store.close()
    yield proxy
    store.close()
    proxy.close()


@pytest.fixture
def told() -> Callable[[], list[str]]:
    """What the audit log says of the subscription, without the beginning of each."""

    def read() -> list[str]:
        entries = AuditEntry.objects.filter(target=f"{ONE[0]}/{ONE[1]}").order_by("seq")
        names = [each.action.removeprefix("subscription.") for each in entries]
        return [name for name in names if name.startswith(("unpark", "breaker"))]

    return read


def keeper() -> Partitioned:
    found = bus.transport()
    assert isinstance(found, Partitioned)
    return found


def lose_unparking(way: Proxy, head: str) -> OutcomeUnknown:
    way.cut_at = (HEAD,)
    with pytest.raises(OutcomeUnknown) as lost:
        services.unpark(OPERATOR, *ONE, "room-1", head=head, reason="the room was sold")
    assert way.cut_at == ()
    return lost.value


@pytest.mark.parametrize("head", ["retry", "skip", "dead"])
def test_what_was_unparked_without_an_answer_is_in_the_log_and_is_found_out_when_asked_again(
    parked: Consumer, way: Proxy, facts: FactRecorder, told: Callable[[], list[str]], head: str
) -> None:
    parked.stop(5.0)
    (key,) = keeper().parked(*ONE)
    facts.seen.clear()
    lost = lose_unparking(way, head)
    assert "ask for the same again" in lost.remedy
    assert keeper().parked(*ONE) == []
    act = f"unpark_{head}"
    assert told() == [act, f"{act}.unknown"]
    entry = AuditEntry.objects.get(action=f"subscription.{act}.unknown")
    assert (entry.reason, entry.before["key"]) == ("the room was sold", "room-1")
    assert entry.after["outcome"] == "nobody knows whether it was done"
    assert words.did(entry).startswith("got no answer, so nobody knows whether it was done: ")
    assert words.tone(entry) == "warn"
    # Somebody else, and who wants something else now, is told who decided what
    other = {"retry": "skip", "skip": "dead", "dead": "retry"}[head]
    for who, wanted in ((EDITOR, head), (OPERATOR, other)):
        with pytest.raises(Conflict) as refused:
            services.unpark(who, *ONE, "room-1", head=wanted, reason="me too")
        assert refused.value.remedy.startswith(f"{OPERATOR.name} decided about it at")
        assert f"({head})" in refused.value.remedy
    assert facts.seen == []
    # The same again, by its key or by its place
    done = services.unpark(OPERATOR, *ONE, key.position, head=head, reason="the room was sold")
    back = 3 if head == "retry" else 2
    assert (done.messages, done.partition, done.head and done.head.position) == (back, key.partition, key.position)
    assert told() == [act, f"{act}.unknown", f"{act}.done"]
    assert facts.kinds() == {"retry": ["unparked"], "skip": ["skipped"], "dead": []}[head]
    assert [bool(fact.message_id) for fact in facts.seen] == [True] * len(facts.seen)
    with pytest.raises(Conflict):
        services.unpark(OPERATOR, *ONE, "room-1", head=head, reason="once more")


def test_a_decision_about_one_message_is_not_carried_out_on_the_next(
    parked: Consumer, way: Proxy, facts: FactRecorder, told: Callable[[], list[str]]
) -> None:
    parked.stop(5.0)
    lose_unparking(way, "skip")

    def fail(message: Any, context: Any) -> None:
        raise ValueError("no such room")

    again = Consumer(
        bus.transport(),
        SubscriptionPolicy(
            *ONE, RetryPolicy(1, (0.01,)), ordering="key", partitions=4, on_failed_head="park", concurrency=2
        ),
        fail,
        name="node-2",
        facts=facts,
    )
    again.start()
    until(lambda: bool(keeper().parked(*ONE)))
    again.stop(5.0)
    (now,) = keeper().parked(*ONE)
    with pytest.raises(Conflict, match="another message has parked it since"):
        services.unpark(OPERATOR, *ONE, "room-1", head="skip", reason="the room was sold")
    assert keeper().parked(*ONE) == [now]
    assert told() == ["unpark_skip", "unpark_skip.unknown", "unpark_skip.done"]
    services.unpark(OPERATOR, *ONE, "room-1", head="skip", reason="that one, too")
    assert keeper().parked(*ONE) == []


def test_what_certainly_was_not_done_is_said_so(
    parked: Consumer, told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = keeper().parked(*ONE)
    services.unpark(OPERATOR, *ONE, "room-1", head="skip", reason="the room was sold")
    # Two looked at the same moment: both saw it parked.
    monkeypatch.setattr(bus.transport(), "parked", lambda *_, **__: stale)
    with pytest.raises(Conflict):
        services.unpark(EDITOR, *ONE, "room-1", head="dead", reason="me too")
    assert told() == ["unpark_skip", "unpark_dead", "unpark_dead.failed"]
    monkeypatch.undo()
    with pytest.raises(Conflict) as refused:
        services.unpark(EDITOR, *ONE, "room-1", head="dead", reason="me too")
    assert refused.value.remedy.startswith(f"{OPERATOR.name} decided about it at")


def test_a_program_and_a_person_are_told_that_nobody_knows(
    parked: Consumer, way: Proxy, calling: Callable[..., Any], signed_in: Callable[..., Client]
) -> None:
    parked.stop(5.0)
    way.cut_at = (HEAD,)
    call, body = calling(Role.OPERATOR), {"key": "room-1", "head": "skip", "reason": "the room was sold"}
    path = f"topics/{ONE[0]}/subscriptions/{ONE[1]}/unpark"
    lost = call("POST", path, body)
    assert (lost.status_code, lost.json()["title"]) == (504, "Outcome unknown")
    assert call("POST", path, body).status_code == 200
    client = signed_in(Role.OPERATOR)
    page = client.get(reverse("audit:list")).content.decode()
    assert "found it done: skipped the head of a parked key" in page


@pytest.mark.parametrize("act", ["open", "close", "try"])
def test_a_breaker_that_was_set_without_an_answer_is_in_the_log(
    billing: Subscription, way: Proxy, facts: FactRecorder, told: Callable[[], list[str]], act: str
) -> None:
    # The store knows the scripts from then on.
    services.set_breaker(EDITOR, *ONE, "open", "drill")
    services.set_breaker(EDITOR, *ONE, "close", "drill")
    if act != "open":
        services.set_breaker(EDITOR, *ONE, "open", "drill")
    facts.seen.clear()
    before = len(told())
    # It is looked at, read to be written, and written.
    way.lose_in = 2
    with pytest.raises(OutcomeUnknown) as lost:
        services.set_breaker(OPERATOR, *ONE, act, "the provider asked for it")
    assert ("another message is tried" in lost.value.remedy) is (act == "try")
    assert "not done twice" not in lost.value.remedy
    standing = services.breaker(OPERATOR, *ONE)
    assert (standing.state, standing.forced) == {
        "open": ("open", True),
        "close": ("closed", False),
        "try": ("open", False),
    }[act]
    assert told()[before:] == [f"breaker_{act}", f"breaker_{act}.unknown"]
    assert facts.seen == []
    services.set_breaker(OPERATOR, *ONE, act, "the provider asked for it")
    if act == "try":
        # One message may be tried again at any time: it is asked for once more.
        assert told()[before:][2:] == ["breaker_try"]
    else:
        assert told()[before:][2:] == [f"breaker_{act}.done"]
        assert facts.kinds() == [f"breaker_{'opened' if act == 'open' else 'closed'}"]
        # And no second time
        services.set_breaker(OPERATOR, *ONE, act, "the provider asked for it")
        assert len(told()) == before + 3


def test_a_breaker_that_could_not_be_read_was_certainly_not_set(
    billing: Subscription, way: Proxy, told: Callable[[], list[str]]
) -> None:
    services.set_breaker(EDITOR, *ONE, "open", "drill")
    services.set_breaker(EDITOR, *ONE, "close", "drill")
    before = len(told())
    way.lose_in = 1
    with pytest.raises(Exception, match="cannot be reached") as refused:
        services.set_breaker(OPERATOR, *ONE, "open", "the provider asked for it")
    assert not isinstance(refused.value, OutcomeUnknown)
    assert told()[before:] == ["breaker_open", "breaker_open.failed"]


def test_what_was_decided_long_ago_is_not_found_done_however_lately_nobody_knew_of_it(
    billing: Subscription, way: Proxy, told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then the breaker may have come to it by itself."""
    services.set_breaker(EDITOR, *ONE, "open", "drill")
    services.set_breaker(EDITOR, *ONE, "close", "drill")
    before = len(told())
    way.lose_in = 2
    with pytest.raises(OutcomeUnknown):
        services.set_breaker(OPERATOR, *ONE, "open", "the provider asked for it")
    unknown, decision = AuditEntry.objects.filter(action__startswith="subscription.breaker_open").order_by("-seq")[:2]
    assert [decided_at(each) for each in (decision, unknown)] == [decision.at] * 2
    # A function of it has its name in the package.
    module = import_module(set_breaker.__module__)
    monkeypatch.setattr(module, "decided_at", lambda entry: decided_at(entry) - timedelta(minutes=11))
    with contextlib.suppress(Conflict):
        services.set_breaker(OPERATOR, *ONE, "open", "the provider asked for it")
    assert told()[before:] == ["breaker_open", "breaker_open.unknown"]


def open_without_an_answer(way: Proxy, call: Callable[..., Any]) -> None:
    services.set_breaker(EDITOR, *ONE, "open", "drill")
    services.set_breaker(EDITOR, *ONE, "close", "drill")
    way.lose_in = 2
    assert call("POST", BREAKER, OPEN, **KEY).status_code == 504
    assert services.breaker(OPERATOR, *ONE).forced


@pytest.mark.parametrize("died", [False, True], ids=["answer lost", "process died"])
def test_a_repeat_does_not_open_a_breaker_that_somebody_has_closed_since(
    billing: Subscription, way: Proxy, calling: Callable[..., Any], told: Callable[[], list[str]], died: bool
) -> None:
    call = calling(Role.OPERATOR)
    if died:
        assert call("POST", BREAKER, OPEN, **KEY).status_code == 200
        long_ago = F("created_at") - idempotency.ABANDONED_AFTER - timedelta(seconds=1)
        entry = AuditEntry.objects.get(action="subscription.breaker_open")
        IdempotencyRecord.objects.update(status=0, created_at=long_ago, response=entry.request_id.encode())
    else:
        open_without_an_answer(way, call)
    services.set_breaker(EDITOR, *ONE, "close", "they are back")
    before = [name for name in told() if not name.endswith(".unknown")]

    again = call("POST", BREAKER, OPEN, **KEY)
    assert again.status_code == 409, again.content
    assert f"{EDITOR.name} has decided about the breaker" in again.json()["detail"]
    assert "since (close, at " in again.json()["detail"]
    assert services.breaker(OPERATOR, *ONE).state == "closed"
    assert [name for name in told() if not name.endswith(".unknown")] == before
    # Another key is another decision
    assert call("POST", BREAKER, OPEN, **{"Idempotency-Key": "key-2"}).status_code == 200
    assert services.breaker(OPERATOR, *ONE).forced


def test_a_repeat_of_what_nobody_has_decided_about_since_is_done(
    billing: Subscription, way: Proxy, calling: Callable[..., Any], told: Callable[[], list[str]]
) -> None:
    call = calling(Role.OPERATOR)
    open_without_an_answer(way, call)
    # As if the store had not done it after all
    bus.breakers().force_close(*ONE, "by nobody")
    assert call("POST", BREAKER, OPEN, **KEY).status_code == 200
    assert told()[-3:] == ["breaker_open", "breaker_open.unknown", "breaker_open"]
