"""Batches of which the store certainly took nothing, or not all: what a repeat under the same header does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pytest_django import Settings

from engine.bus.transport import Outcome, Outgoing, Status
from hbus_console.access.permissions import SYSTEM
from hbus_console.api.models import IdempotencyRecord
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd
from hbus_console.topics import services as topics
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus, store
from tests.hbus_console.api.conftest import Caller

TOPIC = "booking.on-nsq"
PATH = f"topics/{TOPIC}/messages/batch"
KEY = {"Idempotency-Key": "key-1"}
BODY = {"messages": [{"data": 1}, {"data": 2}, {"nope": 3}]}
pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture
def call(program: Callable[..., Caller], settings: Settings, own_nsqd: StandaloneNsqd) -> Iterator[Caller]:
    """A program that publishes to a topic on an nsqd of its own."""
    settings.NSQD_URL = (own_nsqd.url,)
    store.close()
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations", transport="nsq", priorities=False))
    yield program()
    store.close()


def stored() -> int:
    return bus.admin("nsq").depth(TOPIC).messages


def counts(answer: Any) -> dict[str, int]:
    assert answer.status_code == 200, answer.content
    found: dict[str, int] = answer.json()["counts"]
    return found


def test_a_batch_that_was_not_stored_is_published_by_its_repeat(call: Caller, own_nsqd: StandaloneNsqd) -> None:
    own_nsqd.kill()
    assert counts(call("post", PATH, BODY, **KEY)) == {"failed": 2, "refused": 1}
    own_nsqd.start()

    again = call("post", PATH, BODY, **KEY)
    assert counts(again) == {"stored": 2, "refused": 1}
    assert stored() == 2
    kept = call("post", PATH, BODY, **KEY)
    assert (kept.content, kept.headers["Idempotent-Replayed"]) == (again.content, "true")
    assert stored() == 2


@pytest.mark.parametrize(
    ("first", "told"), [(Status.OK, "stored"), (Status.UNKNOWN, "unknown"), (Status.DUPLICATE, "duplicate")]
)
def test_what_was_stored_or_may_be_is_not_published_again(
    call: Caller, monkeypatch: pytest.MonkeyPatch, first: Status, told: str
) -> None:
    def publish(_: object, batch: Sequence[Outgoing]) -> list[Outcome]:
        one, other = (each.message_id for each in batch)
        return [Outcome(first, one), Outcome(Status.FAILED, other, error="nsqd went away")]

    with monkeypatch.context() as patched:
        patched.setattr(bus.transport("nsq"), "publish", publish)
        before = call("post", PATH, BODY, **KEY)
    assert counts(before) == {told: 1, "failed": 1, "refused": 1}

    kept = call("post", PATH, BODY, **KEY)
    assert (kept.content, kept.headers["Idempotent-Replayed"]) == (before.content, "true")
    assert stored() == 0


def test_a_batch_of_mistakes_is_answered_once(call: Caller) -> None:
    body = {"messages": [{"nope": 1}]}
    before = call("post", PATH, body, **KEY)
    assert counts(before) == {"refused": 1}
    assert call("post", PATH, body, **KEY).headers["Idempotent-Replayed"] == "true"
    assert IdempotencyRecord.objects.count() == 1
