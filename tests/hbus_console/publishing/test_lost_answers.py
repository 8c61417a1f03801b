"""Publishes whose answer is lost between the store and the API: a repeat under the same header has no second effect."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db.models import F
from pytest_django import Settings

from engine.bus.transport import Outcome, Status
from hbus_console.access.permissions import SYSTEM
from hbus_console.api import idempotency
from hbus_console.api.models import IdempotencyRecord
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft, moving
from hbus_console.wiring import bus, store
from tests.engine.bus.transports.proxy import Proxy
from tests.hbus_console.api.conftest import Caller

TOPIC = "booking.far"
FAR = "redis_stream@far"
PATH = f"topics/{TOPIC}/messages"
KEY = {"Idempotency-Key": "key-1"}
EVENT = {"specversion": "1.0", "id": "e1", "source": "/pms", "type": "t", "data": 1}
pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture
def proxy(program: Callable[..., Caller], settings: Settings, own_store: StandaloneStore) -> Iterator[Proxy]:
    """Stands before the store of one topic, which remembers keys for a minute."""
    made = Proxy(own_store.port)
    settings.HBUS_STORES = {"far": own_store.url.replace(f":{own_store.port}", f":{made.port}")}
    store.close()
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations", transport=FAR, idempotency_window_s=60))
    yield made
    store.close()
    made.close()


@pytest.fixture
def call(program: Callable[..., Caller], proxy: Proxy) -> Caller:
    """A program that has published there before: every connection is there, and the scripts are."""
    made = program()
    assert made("post", PATH, {"data": "first", "idempotency_key": "first"}).status_code == 201
    return made


def stored() -> int:
    return bus.admin(FAR).depth(TOPIC).messages - 1


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ({"data": 1}, "application/json"),
        ({"data": 1, "idempotency_key": "mine"}, "application/json"),
        (EVENT, "application/cloudevents+json"),
    ],
    ids=["header alone", "key in the body", "CloudEvent"],
)
def test_a_message_whose_answer_was_lost_is_not_stored_twice(
    call: Caller, proxy: Proxy, body: dict[str, Any], content_type: str
) -> None:
    proxy.lose_in = 0
    lost = call("post", PATH, body, content_type=content_type, **KEY)
    assert lost.status_code == 504, lost.content
    assert stored() == 1

    again = call("post", PATH, body, content_type=content_type, **KEY)
    assert (again.status_code, again.json()["status"]) == (200, "duplicate")
    assert stored() == 1
    kept = call("post", PATH, body, content_type=content_type, **KEY)
    assert (kept.content, kept.headers["Idempotent-Replayed"]) == (again.content, "true")


@pytest.mark.parametrize("own", [False, True], ids=["header alone", "key in the body"])
def test_the_header_holds_for_its_day_where_the_topic_remembers_less(
    call: Caller, own_store: StandaloneStore, own: bool
) -> None:
    call("post", PATH, {"data": 1, **({"idempotency_key": "mine"} if own else {})}, **KEY)
    server = redis.Redis.from_url(own_store.url)
    left = [server.pttl(key) for key in server.scan_iter(count=1_000) if b":idem:" in key]
    assert sorted(ms > 23 * 3_600_000 for ms in left) == [False, True], left


def test_a_delayed_message_whose_answer_was_lost_is_kept_once(call: Caller, proxy: Proxy) -> None:
    proxy.lose_in = 0
    body = {"data": 1, "delay_s": 3600}
    assert call("post", PATH, body, **KEY).status_code == 504
    again = call("post", PATH, body, **KEY)
    assert again.status_code in (200, 202), again.content
    call("post", PATH, body, **KEY)
    assert bus.delays().count() == 1


def test_a_batch_whose_answer_was_lost_is_unknown_and_its_repeat_tells(call: Caller, proxy: Proxy) -> None:
    body = {"messages": [{"data": 1}, {"data": 1}, {"nope": 1}]}
    proxy.lose_in = 0
    lost = call("post", f"{PATH}/batch", body, **KEY).json()
    assert [row["status"] for row in lost["results"]] == ["unknown", "unknown", "refused"]
    assert lost["counts"] == {"unknown": 2, "refused": 1}
    assert stored() == 2

    again = call("post", f"{PATH}/batch", body, **KEY).json()
    assert again["counts"] == {"duplicate": 2, "refused": 1}
    assert stored() == 2
    assert call("post", f"{PATH}/batch", body, **KEY).json() == again


def test_what_a_batch_certainly_did_not_store_has_another_status(call: Caller, proxy: Proxy) -> None:
    proxy.close()
    answer = call("post", f"{PATH}/batch", {"messages": [{"data": 1}] * 501}).json()
    assert answer["counts"].get("failed", 0) >= 1


def test_a_message_whose_web_process_died_is_not_stored_twice(call: Caller) -> None:
    assert call("post", PATH, {"data": 1}, **KEY).status_code == 201
    IdempotencyRecord.objects.update(
        status=0, created_at=F("created_at") - idempotency.ABANDONED_AFTER - timedelta(seconds=1)
    )
    assert call("post", PATH, {"data": 1}, **KEY).json()["status"] == "duplicate"
    assert stored() == 1


def test_where_keys_are_not_exact_the_repeat_of_an_unknown_publish_is_refused(
    call: Caller, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bus.transport(FAR)
    able = dataclasses.replace(made.capabilities, exact_keys=False)
    monkeypatch.setattr(type(made), "capabilities", property(lambda _: able))
    proxy.lose_in = 0
    assert call("post", PATH, {"data": 1}, **KEY).status_code == 504
    again = call("post", PATH, {"data": 1}, **KEY)
    assert (again.status_code, again.json()["field"]) == (409, "Idempotency-Key")
    assert "nobody knows" in again.json()["detail"]
    assert stored() == 1


def test_what_may_lie_where_the_topic_was_before_is_not_stored_where_it_is_now(call: Caller, proxy: Proxy) -> None:
    proxy.lose_in = 0
    assert call("post", PATH, {"data": 1}, **KEY).status_code == 504
    moving.prepare(Topic.objects.get(name=TOPIC), "redis_stream")
    moved = moving.cut_over(SYSTEM, TOPIC, "redis_stream", (), "the far store is given up")
    assert stored() == 1
    again = call("post", PATH, {"data": 1}, **KEY)
    assert (again.status_code, again.json()["field"]) == (409, "Idempotency-Key")
    assert "nobody knows" in again.json()["detail"]
    assert bus.admin("redis_stream").depth(TOPIC).messages == 0
    # Of what was first tried long after the move it is known again
    Topic.objects.update(moved_at=moved.moved_at - timedelta(minutes=2))
    assert call("post", PATH, {"data": 2}, **{"Idempotency-Key": "key-2"}).status_code == 201
    IdempotencyRecord.objects.filter(key="key-2").update(status=idempotency.OPEN)
    assert call("post", PATH, {"data": 2}, **{"Idempotency-Key": "key-2"}).json()["status"] == "duplicate"


def test_a_repeat_that_certainly_did_nothing_does_not_forget_the_first_try(
    call: Caller, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.lose_in = 0
    assert call("post", PATH, {"data": 1}, **KEY).status_code == 504
    with monkeypatch.context() as patched:
        patched.setattr(
            bus.transport(FAR), "publish", lambda _, batch: [Outcome(Status.FAILED, each.message_id) for each in batch]
        )
        assert call("post", PATH, {"data": 1}, **KEY).status_code == 503
    assert "used before with another body" in call("post", PATH, {"data": 2}, **KEY).json()["detail"]
    assert call("post", PATH, {"data": 1}, **KEY).json()["status"] == "duplicate"
    assert stored() == 1
