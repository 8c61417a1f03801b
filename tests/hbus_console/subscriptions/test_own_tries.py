"""A decision repeated under its key after its answer was lost, and after others were made about the same subject."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.bus.breaker_board import Pauses
from engine.bus.conformance.running import FactRecorder
from engine.bus.consumer import Consumer
from engine.bus.partitions import Parked
from engine.bus.policy import RetryPolicy, SubscriptionPolicy
from engine.core.errors import Unavailable
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Forbidden
from hbus_console.api.models import IdempotencyRecord
from hbus_console.audit.models import AuditEntry
from hbus_console.subscriptions import services
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import order
from hbus_console.subscriptions.services.breaker import ACTS
from hbus_console.wiring import bus
from tests.engine.bus.kit import until
from tests.engine.bus.transports.proxy import Proxy
from tests.hbus_console.subscriptions.test_lost_decisions import BREAKER, HEAD, keeper, told, way
from tests.hbus_console.subscriptions.test_order import ONE, billing, facts, parked
from tests.hbus_console.topics.conftest import EDITOR, OPERATOR

__all__ = ["billing", "facts", "parked", "told", "way"]

pytestmark = [
    pytest.mark.django_db(databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "way", "team"),
]

UNPARK = f"topics/{ONE[0]}/subscriptions/{ONE[1]}/unpark"
#: ``ask("skip", "key-1")``: decides about ``room-1`` under that key.
Ask = Callable[[str, str], Any]


@pytest.fixture
def ask(calling: Callable[..., Any]) -> Ask:
    call = calling(Role.OPERATOR)

    def do(what: str, key: str) -> Any:
        if what in ACTS:
            return call("POST", BREAKER, {"act": what, "reason": "why"}, **{"Idempotency-Key": key})
        return call("POST", UNPARK, {"key": "room-1", "head": what, "reason": "why"}, **{"Idempotency-Key": key})

    return do


@pytest.fixture
def park_again(parked: Consumer, facts: FactRecorder) -> Callable[[], Parked]:
    """Has what is not parked any more delivered until its head has parked its key."""
    parked.stop(5.0)

    def fail(message: Any, context: Any) -> None:
        raise ValueError("no such room")

    policy = SubscriptionPolicy(
        *ONE, RetryPolicy(1, (0.01,)), ordering="key", partitions=4, on_failed_head="park", concurrency=2
    )

    def park() -> Parked:
        again = Consumer(bus.transport(), policy, fail, name="node-2", facts=facts)
        again.start()
        until(lambda: bool(keeper().parked(*ONE)))
        again.stop(5.0)
        (now,) = keeper().parked(*ONE)
        return now

    return park


def lose(way: Proxy, ask: Ask, head: str) -> None:
    way.cut_at = (HEAD,)
    assert ask(head, "key-1").status_code == 504
    assert way.cut_at == ()
    assert keeper().parked(*ONE) == []


def test_a_repeat_is_told_that_it_was_done_though_another_key_found_that_out(
    way: Proxy, ask: Ask, park_again: Callable[[], Parked], told: Callable[[], list[str]]
) -> None:
    (first,) = keeper().parked(*ONE)
    lose(way, ask, "skip")
    now = park_again()
    other = ask("skip", "key-2")
    assert other.status_code == 409
    assert "another message has parked it since" in other.json()["detail"]
    again = ask("skip", "key-1")
    assert (again.status_code, again.json()["head"], again.json()["messages"]) == (200, first.position, 2)
    assert keeper().parked(*ONE) == [now]
    assert told() == ["unpark_skip", "unpark_skip.unknown", "unpark_skip.done"]


def test_a_repeat_is_told_that_it_was_done_though_somebody_has_retried_the_next_message(
    way: Proxy, ask: Ask, park_again: Callable[[], Parked], told: Callable[[], list[str]]
) -> None:
    (first,) = keeper().parked(*ONE)
    lose(way, ask, "skip")
    park_again()
    services.unpark(EDITOR, *ONE, "room-1", head="retry", reason="that one again")
    now = park_again()
    again = ask("skip", "key-1")
    assert (again.status_code, again.json()["head"]) == (200, first.position)
    assert keeper().parked(*ONE) == [now]
    assert told() == ["unpark_skip", "unpark_skip.unknown", "unpark_retry", "unpark_skip.done"]


@pytest.mark.parametrize("between", [False, True], ids=["alone", "retried by somebody else"])
def test_a_retry_whose_head_has_parked_its_key_again_is_not_done_a_second_time(
    way: Proxy, ask: Ask, park_again: Callable[[], Parked], between: bool
) -> None:
    (first,) = keeper().parked(*ONE)
    lose(way, ask, "retry")
    now = park_again()
    assert now.position == first.position
    if between:
        services.unpark(EDITOR, *ONE, "room-1", head="retry", reason="once more")
        now = park_again()
    again = ask("retry", "key-1")
    assert (again.status_code, again.json()["messages"]) == (200, 3)
    assert keeper().parked(*ONE) == [now]
    # Under another key it is another decision, about another parking
    assert ask("retry", "key-2").status_code == 200
    assert keeper().parked(*ONE) == []


def test_another_key_finds_a_retry_done_whose_head_has_parked_its_key_again(
    way: Proxy, ask: Ask, park_again: Callable[[], Parked]
) -> None:
    lose(way, ask, "retry")
    now = park_again()
    refused = ask("retry", "key-2")
    assert refused.status_code == 409
    assert "was done, and it has parked again since" in refused.json()["detail"]
    assert keeper().parked(*ONE) == [now]


def test_a_repeat_is_refused_where_somebody_has_decided_about_the_same_parking_since(
    way: Proxy, ask: Ask, parked: Consumer, monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    parked.stop(5.0)
    undone(monkeypatch, ask)
    services.unpark(EDITOR, *ONE, "room-1", head="dead", reason="it is broken")
    again = ask("skip", "key-1")
    assert again.status_code == 409
    assert f"{EDITOR.name} has decided about the same parked message since (dead, at " in again.json()["detail"]
    assert told() == ["unpark_skip", "unpark_skip.unknown", "unpark_dead"]


def undone(monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    """Nobody knows of a skip whether it was done, and it was not."""

    def unpark(*_: object, **__: object) -> None:
        raise RuntimeError("gone")

    monkeypatch.setattr(bus.transport(), "unpark", unpark)
    with pytest.raises(RuntimeError):
        ask("skip", "key-1")
    monkeypatch.undo()
    assert len(keeper().parked(*ONE)) == 1


def test_what_stands_as_it_did_at_the_first_try_is_carried_out_by_the_repeat(
    way: Proxy, ask: Ask, parked: Consumer, monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    parked.stop(5.0)
    undone(monkeypatch, ask)
    assert ask("skip", "key-1").status_code == 200
    assert keeper().parked(*ONE) == []
    assert told() == ["unpark_skip", "unpark_skip.unknown", "unpark_skip"]


def test_a_repeat_that_could_not_even_look_does_not_make_the_next_forget_the_first_try(
    way: Proxy, ask: Ask, park_again: Callable[[], Parked], monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = keeper().parked(*ONE)
    lose(way, ask, "skip")
    now = park_again()

    def away(*_: object, **__: object) -> None:
        raise Unavailable("The store does not answer.", remedy="Later.")

    for _ in range(2):
        monkeypatch.setattr(bus.transport(), "parked", away)
        assert ask("skip", "key-1").status_code == 503
        monkeypatch.undo()
    again = ask("skip", "key-1")
    assert (again.status_code, again.json()["head"]) == (200, first.position)
    assert keeper().parked(*ONE) == [now]


def test_a_repeat_that_was_forbidden_does_not_free_the_key_of_what_its_first_try_did(
    way: Proxy, ask: Ask, park_again: Callable[[], Parked], monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = keeper().parked(*ONE)
    lose(way, ask, "skip")
    now = park_again()

    def refuse(*_: object) -> None:
        raise Forbidden("Not now.")

    monkeypatch.setattr(order, "require", refuse)
    assert ask("skip", "key-1").status_code == 403
    monkeypatch.undo()
    again = ask("skip", "key-1")
    assert (again.status_code, again.json()["head"]) == (200, first.position)
    assert keeper().parked(*ONE) == [now]


def lose_breaker(way: Proxy, ask: Ask, act: str) -> None:
    services.set_breaker(EDITOR, *ONE, "open", "drill")
    if act == "open":
        services.set_breaker(EDITOR, *ONE, "close", "drill")
    way.lose_in = 2
    assert ask(act, "key-1").status_code == 504


@pytest.mark.parametrize("act", ["open", "close"])
def test_a_repeat_does_not_set_a_breaker_that_was_found_set_and_that_somebody_has_set_since(
    billing: Subscription, way: Proxy, ask: Ask, told: Callable[[], list[str]], act: str
) -> None:
    other = {"open": "close", "close": "open"}[act]
    lose_breaker(way, ask, act)
    assert ask(act, "key-2").status_code == 200
    assert told()[-1] == f"breaker_{act}.done"
    services.set_breaker(EDITOR, *ONE, other, "they are back")
    stands, before = services.breaker(OPERATOR, *ONE), told()
    again = ask(act, "key-1")
    assert again.status_code == 409
    assert again.json()["detail"].startswith(f"It was done, and {EDITOR.name} has decided about the breaker of")
    assert f"since ({other}, at " in again.json()["detail"]
    assert services.breaker(OPERATOR, *ONE).forced == stands.forced
    assert told() == before


def test_a_repeat_is_told_that_a_breaker_was_set_where_another_key_found_that_out(
    billing: Subscription, way: Proxy, ask: Ask, told: Callable[[], list[str]]
) -> None:
    lose_breaker(way, ask, "close")
    assert ask("close", "key-2").status_code == 200
    before = told()
    # By its failures, which nobody decided
    trip()
    again = ask("close", "key-1")
    assert (again.status_code, again.json()["state"]) == (200, "open")
    assert told() == before


def trip() -> None:
    assert bus.breakers().trip(*ONE, "node-1", "TimeoutError", Pauses(60_000, 60_000)).state == "open"


@pytest.mark.parametrize("act", ["close", "try"])
def test_a_repeat_leaves_a_breaker_that_has_opened_anew_since(
    billing: Subscription, way: Proxy, ask: Ask, told: Callable[[], list[str]], act: str
) -> None:
    lose_breaker(way, ask, act)
    bus.breakers().force_close(*ONE, "as if the message had been handled")
    trip()
    before = told()
    again = ask(act, "key-1")
    assert again.status_code == 409
    assert "has closed and opened anew since" in again.json()["detail"]
    assert told() == before


def test_a_repeat_has_no_second_message_tried(
    billing: Subscription, way: Proxy, ask: Ask, told: Callable[[], list[str]]
) -> None:
    lose_breaker(way, ask, "try")
    assert not services.breaker(OPERATOR, *ONE).forced
    before = told()
    assert [ask("try", "key-1").status_code for _ in range(2)] == [200, 200]
    assert told() == [*before, "breaker_try.done"]


def test_the_newest_own_decision_counts_among_those_that_were_made_since(
    billing: Subscription, way: Proxy, ask: Ask, told: Callable[[], list[str]]
) -> None:
    lose_breaker(way, ask, "open")
    bus.breakers().force_close(*ONE, "as if it had not been done")
    assert ask("open", "key-2").status_code == 200
    bus.breakers().force_close(*ONE, "by nobody")
    before = told()
    again = ask("open", "key-1")
    assert again.status_code == 409
    assert again.json()["detail"].startswith("Nobody knows whether it was done, and ")
    assert told() == before
    assert AuditEntry.objects.latest("seq").actor in again.json()["detail"]
    assert IdempotencyRecord.objects.get(key="key-1").status == 409
