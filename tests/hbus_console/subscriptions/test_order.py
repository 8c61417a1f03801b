"""The order of a subscription: its page, what the API says, and the decisions about parked keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.test import Client
from django.urls import reverse

from engine.bus.conformance.running import FactRecorder
from engine.bus.consumer import Consumer
from engine.bus.facts import batches
from engine.bus.message import Message, encode
from engine.bus.options import PublishOptions
from engine.bus.partitions import Partitioned, partition_of
from engine.bus.policy import RetryPolicy, SubscriptionPolicy
from engine.bus.transport import Outgoing
from engine.core.clock import SystemClock
from engine.core.errors import BadInput, Conflict, NotThere, OutcomeUnknown
from engine.core.store.failures import AnswerLost
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.evidence.booking import Booking
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import order_page
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft, order
from hbus_console.topics import services as topics
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus, fact_log
from tests.engine.bus.kit import until
from tests.hbus_console.topics.conftest import EDITOR, OPERATOR, VIEWER
from tests.plans import plans

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys", "team")]

ONE = ["stay.changed", "billing"]


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> FactRecorder:
    """Everything that is told, to be booked into the ledger by the test."""
    kept = FactRecorder()
    monkeypatch.setattr(fact_log, "emitter", lambda: kept)
    return kept


@pytest.fixture
def billing(facts: FactRecorder, committed: Callable[..., None]) -> Subscription:
    committed(lambda: topics.create_topic(EDITOR, TopicDraft(ONE[0], "Reservations", ordering="key", partitions=4)))
    committed(
        lambda: subscriptions.create_subscription(
            EDITOR, SubscriptionDraft(*ONE, "Reservations", on_failed_head="park")
        )
    )
    return subscriptions.subscription(*ONE)


def book(facts: FactRecorder) -> None:
    """What the keeper does: facts become rows of the ledger."""
    rows = Booking()
    rows.add(batches(facts.seen))
    facts.seen.clear()
    rows.write()


@pytest.fixture
def parked(billing: Subscription, facts: FactRecorder) -> Consumer:
    """Key ``room-1`` is parked at its first of three messages, ``room-2`` has gone on; who did it still runs."""

    def handle(message: Any, context: Any) -> None:
        if message.json() == {"n": 0}:
            raise ValueError("no such room")

    for n, key in enumerate(("room-1", "room-1", "room-2", "room-1")):
        shared_producer().publish(ONE[0], {"n": n}, PublishOptions(key=key))
    policy = SubscriptionPolicy(
        *ONE, RetryPolicy(2, (0.01,)), ordering="key", partitions=4, on_failed_head="park", concurrency=2
    )
    made = Consumer(bus.transport(), policy, handle, name="node-1", facts=facts)
    made.start()
    until(lambda: facts.kinds().count("parked") == 3 and facts.kinds().count("settled") == 1)
    book(facts)
    yield made
    made.stop(5.0)


def test_the_page_says_who_owns_what_and_which_keys_wait(parked: Consumer, signed_in: Callable[..., Client]) -> None:
    answer = signed_in(Role.OPERATOR).get(reverse("subscriptions:order", args=ONE))
    page: order_page.OrderPage = answer.context["page"]
    assert [(owned.consumer, owned.epoch) for owned in page.partitions] == [("node-1", 1)] * 4
    (key,) = page.parked
    assert (key.key, key.messages, key.record.attempts) == ("room-1", 3, 2)
    assert key.reason.startswith("ValueError: no such room")
    text = " ".join(answer.content.decode().split())
    assert "1 parked key waits for a decision" in text
    assert 'name="head" value="skip"' in text


def test_a_viewer_sees_it_without_the_decision(parked: Consumer, signed_in: Callable[..., Client]) -> None:
    text = signed_in(Role.VIEWER).get(reverse("subscriptions:order", args=ONE)).content.decode()
    assert "room-1" in text
    assert "Unpark…" not in text


def test_one_key_is_shown_in_sequence_with_its_attempts_and_owner(
    parked: Consumer, signed_in: Callable[..., Client]
) -> None:
    client = signed_in()
    answer = client.get(reverse("subscriptions:order", args=ONE), {"key": "room-1"})
    one = answer.context["page"].one
    assert one.state == "parked"
    assert one.partition == partition_of("room-1", "", 4)
    assert one.owner.consumer == "node-1"
    assert [step.state for step in one.steps] == ["parked"] * 3
    assert one.head is one.steps[0]
    assert [(event.attempt, event.error) for event in one.steps[0].attempts] == [
        (1, "ValueError: no such room"),
        (2, "ValueError: no such room"),
    ]
    assert "holds up 2" in answer.content.decode()
    other = client.get(reverse("subscriptions:order", args=ONE), {"key": "room-2"}).context["page"].one
    assert (other.state, [step.state for step in other.steps]) == ("settled", ["settled"])


def test_unparking_brings_the_messages_again_and_leaves_a_trace(
    parked: Consumer, facts: FactRecorder, signed_in: Callable[..., Client]
) -> None:
    client = signed_in(Role.OPERATOR)
    form = {"key": "room-1", "head": "skip", "reason": "the room was sold"}
    answer = client.post(reverse("subscriptions:unpark", args=ONE), form, follow=True)
    assert "room-1 is unparked" in answer.content.decode()
    until(lambda: facts.kinds().count("settled") == 2)
    assert facts.kinds().count("skipped") == 1
    entry = AuditEntry.objects.get(action="subscription.unpark_skip")
    assert (entry.target, entry.reason, entry.before["key"]) == ("stay.changed/billing", "the room was sold", "room-1")
    assert entry.before["messages"] == 3
    book(facts)
    one = client.get(reverse("subscriptions:order", args=ONE), {"key": "room-1"}).context["page"].one
    assert (one.state, [step.state for step in one.steps]) == ("settled", ["skipped", "settled", "settled"])
    again = client.post(reverse("subscriptions:unpark", args=ONE), form, follow=True)
    assert "is not parked" in again.content.decode()


def test_a_parked_and_a_skipped_message_are_called_so_on_their_own_page(
    parked: Consumer, facts: FactRecorder, signed_in: Callable[..., Client]
) -> None:
    client = signed_in(Role.OPERATOR)
    one = client.get(reverse("subscriptions:order", args=ONE), {"key": "room-1"}).context["page"].one
    head, follower = (reverse("messages:message", args=[step.message.message_id]) for step in one.steps[:2])
    assert ("warn", "parked") in list(client.get(head).context["badges"])
    assert "Set aside with its key in" in client.get(follower).content.decode()
    subscriptions.unpark(OPERATOR, *ONE, "room-1", head="skip", reason="sold")
    book(facts)
    answer = client.get(head)
    assert ("act", "skipped") in list(answer.context["badges"])
    assert "decided by a-operator: sold" in answer.content.decode()


@pytest.mark.parametrize("odd", ["k\0z", "esc\x1b[2J", "P" * 5_000, " a "], ids=["NUL", "escape", "long", "blanks"])
def test_a_key_that_only_a_stranger_writes_can_be_decided_about(
    billing: Subscription, facts: FactRecorder, signed_in: Callable[..., Client], odd: str
) -> None:
    """Found by a stranger: it was refused for what it holds, and so stayed parked for ever."""

    def handle(message: Any, context: Any) -> None:
        raise ValueError("no such room")

    body = encode(Message(id="odd", source="/s", type="t", partitionkey=odd, data=msgspec.Raw(b"{}")))
    bus.transport().publish(ONE[0], [Outgoing("odd", body, partition=partition_of(odd, "odd", 4))])
    policy = SubscriptionPolicy(*ONE, RetryPolicy(2, (0.01,)), ordering="key", partitions=4, on_failed_head="park")
    made = Consumer(bus.transport(), policy, handle, name="node-1", facts=facts)
    made.start()
    until(lambda: facts.kinds().count("parked") == 1)
    client, address = signed_in(Role.OPERATOR), reverse("subscriptions:order", args=ONE)
    page = client.get(address)
    (waiting,) = page.context["page"].parked
    assert f'name="key" value="{waiting.handle}"' in page.content.decode()
    form = {"key": waiting.handle, "head": "skip", "reason": "a stranger's"}
    client.post(reverse("subscriptions:unpark", args=ONE), form, follow=True)
    assert order_page.parked_keys(billing) == []
    entry = AuditEntry.objects.get(action="subscription.unpark_skip")
    assert entry.before is not None
    assert entry.before["key"].isprintable()
    made.stop(5.0)


def test_a_key_parked_in_two_partitions_is_decided_about_by_its_head(
    parked: Consumer, billing: Subscription, facts: FactRecorder, signed_in: Callable[..., Client]
) -> None:
    """A foreign writer has put two of its messages where they do not belong."""
    own = partition_of("room-1", "", 4)
    other = (own + 1) % 4
    bodies = [
        encode(Message(id=f"odd-{n}", source="/s", type="t", partitionkey="room-1", data=msgspec.Raw(b'{"n":%d}' % n)))
        for n in (0, 9)
    ]
    bus.transport().publish(ONE[0], [Outgoing(f"odd-{n}", body, partition=other) for n, body in enumerate(bodies)])
    until(lambda: facts.kinds().count("parked") == 2)
    with pytest.raises(BadInput) as refused:
        subscriptions.unpark(OPERATOR, *ONE, "room-1", head="skip", reason="sold")
    client, address = signed_in(Role.OPERATOR), reverse("subscriptions:order", args=ONE)
    waiting = {each.partition: each for each in client.get(address).context["page"].parked}
    assert waiting.keys() == {own, other}
    assert all(each.position in refused.value.remedy for each in waiting.values())
    form = {"key": waiting[other].handle, "head": "skip", "reason": "not theirs"}
    client.post(reverse("subscriptions:unpark", args=ONE), form, follow=True)
    (left,) = order_page.parked_keys(billing)
    assert (left.partition, left.messages, left.handle) == (own, 3, "room-1")


def test_a_lost_answer_about_one_partition_says_nothing_of_the_other(
    parked: Consumer, facts: FactRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = (partition_of("room-1", "", 4) + 1) % 4
    body = encode(Message(id="odd", source="/s", type="t", partitionkey="room-1", data=msgspec.Raw(b'{"n":0}')))
    bus.transport().publish(ONE[0], [Outgoing("odd", body, partition=other)])
    until(lambda: facts.kinds().count("parked") == 1)
    keeper = bus.transport()
    assert isinstance(keeper, Partitioned)
    heads = {each.partition: each.position for each in keeper.parked(*ONE, key="room-1")}
    foreign = heads.pop(other)
    (own,) = heads.values()

    def lost(*_: Any, **__: Any) -> None:
        raise AnswerLost("the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr(keeper, "unpark", lost)
        with pytest.raises(OutcomeUnknown):
            subscriptions.unpark(OPERATOR, *ONE, own, head="skip", reason="sold")
    assert subscriptions.unpark(OPERATOR, *ONE, foreign, head="skip", reason="not theirs").partition == other
    assert [each.position for each in keeper.parked(*ONE, key="room-1")] == [own]
    assert not AuditEntry.objects.filter(action__endswith=".done").exists()


def test_a_key_beyond_those_that_are_listed_is_shown_and_decided_about(
    parked: Consumer, signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_page, "KEYS", 0)
    page = signed_in().get(reverse("subscriptions:order", args=ONE), {"key": "room-1"}).context["page"]
    assert (page.parked, page.one.state) == ([], "parked")
    assert subscriptions.unpark(OPERATOR, *ONE, "room-1", head="skip", reason="sold").messages == 2


def test_of_more_keys_than_are_listed_it_is_said_so(
    parked: Consumer, signed_in: Callable[..., Client], calling: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, path = reverse("subscriptions:order", args=ONE), "topics/stay.changed/subscriptions/billing/order"
    client, call = signed_in(), calling(Role.VIEWER)
    assert (client.get(address).context["page"].more_parked, call("GET", path).json()["more_parked"]) == (False, False)
    monkeypatch.setattr(order_page, "KEYS", 0)
    page = client.get(address)
    assert (page.context["page"].more_parked, call("GET", path).json()["more_parked"]) == (True, True)
    assert call("GET", path).json()["parked"] == []


def test_a_head_sent_to_the_dead_letters_is_told(parked: Consumer, facts: FactRecorder) -> None:
    subscriptions.unpark(OPERATOR, *ONE, "room-1", head="dead", reason="hopeless")
    (letter,) = bus.admin().dead(*ONE)
    assert letter.body
    (fact,) = [fact for fact in facts.seen if fact.kind == "dead"]
    assert (fact.key, fact.attempt, fact.detail) == ("room-1", 2, "decided by a-operator: hopeless")
    assert fact.error == "ValueError: no such room"


def test_a_decision_stands_among_the_attempts_and_is_none(
    parked: Consumer, facts: FactRecorder, signed_in: Callable[..., Client]
) -> None:
    subscriptions.unpark(OPERATOR, *ONE, "room-1", head="dead", reason="hopeless")
    book(facts)
    answer = signed_in().get(reverse("subscriptions:order", args=ONE), {"key": "room-1"})
    head = answer.context["page"].one.steps[0]
    assert (head.state, [event.attempt for event in head.attempts]) == ("dead", [1, 2])
    assert [by_hand for by_hand, _ in head.told] == [False, False, True]
    assert "decided by a-operator: hopeless" in answer.content.decode()


@pytest.mark.parametrize(
    ("change", "field"), [({"head": "burn"}, "head"), ({"reason": " "}, "reason"), ({"key": ""}, "key")]
)
def test_a_decision_that_is_none_is_refused_at_the_field(parked: Consumer, change: dict[str, str], field: str) -> None:
    given = {"key": "room-1", "head": "retry", "reason": "why", **change}
    with pytest.raises(BadInput) as refused:
        subscriptions.unpark(OPERATOR, *ONE, given.pop("key"), **given)
    assert refused.value.field == field
    assert [each.key for each in order_page.parked_keys(subscriptions.subscription(*ONE))] == ["room-1"]


@pytest.mark.parametrize("decision", ["retry", "skip", "dead"])
def test_a_key_that_parks_again_between_the_look_and_the_act_is_left_as_it_is(
    parked: Consumer, facts: FactRecorder, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    keeper, carry_out = bus.transport(), order.carry_out
    assert isinstance(keeper, Partitioned)
    (seen,) = keeper.parked(*ONE)

    def somebody_was_faster(*asked: Any) -> Any:
        monkeypatch.setattr(order, "carry_out", carry_out)
        subscriptions.unpark(EDITOR, *ONE, "room-1", head="retry", reason="the room is there now")
        until(lambda: [(each.position, each.messages) for each in keeper.parked(*ONE)] == [(seen.position, 3)])
        return carry_out(*asked)

    monkeypatch.setattr(order, "carry_out", somebody_was_faster)
    with pytest.raises(Conflict, match="Somebody else has decided about 'room-1' meanwhile, and it has parked again"):
        subscriptions.unpark(OPERATOR, *ONE, "room-1", head=decision, reason="the room was sold")
    (now,) = keeper.parked(*ONE)
    assert (now.position, now.messages) == (seen.position, 3)
    assert AuditEntry.objects.latest("seq").action == f"subscription.unpark_{decision}.failed"


def test_deciding_takes_an_operator_and_a_parked_key(parked: Consumer, told: Callable[[], list[str]]) -> None:
    with pytest.raises(Forbidden):
        subscriptions.unpark(VIEWER, *ONE, "room-1", head="retry", reason="why")
    with pytest.raises(Conflict):
        subscriptions.unpark(OPERATOR, *ONE, "room-2", head="retry", reason="why")
    assert not [action for action in told() if action.startswith("subscription.unpark") and "refused" not in action]


def test_the_api_says_the_same_and_decides(parked: Consumer, facts: FactRecorder, calling: Callable[..., Any]) -> None:
    call, path = calling(Role.OPERATOR), f"topics/{ONE[0]}/subscriptions/{ONE[1]}"
    said = call("GET", f"{path}/order?key=room-1").json()
    assert (said["ordering"], said["on_failed_head"], len(said["partitions"])) == ("key", "park", 4)
    assert said["parked"][0] | {"since_ms": 0} == {
        "key": "room-1",
        "partition": partition_of("room-1", "", 4),
        "position": said["key"]["steps"][0]["position"],
        "messages": 3,
        "since_ms": 0,
        "attempts": 2,
        "error": "ValueError: no such room",
    }
    assert [step["state"] for step in said["key"]["steps"]] == ["parked"] * 3
    done = call("POST", f"{path}/unpark", {"key": "room-1", "head": "skip", "reason": "sold"})
    assert (done.status_code, done.json()["messages"]) == (200, 2)
    until(lambda: facts.kinds().count("settled") == 2)
    assert call("POST", f"{path}/unpark", {"key": "room-1", "head": "skip", "reason": "sold"}).status_code == 409
    assert call("GET", f"{path}/order").json()["parked"] == []
    assert call("GET", path).json()["lag"]["parked"] == 0


def test_a_key_that_is_tried_again_is_listed_as_waiting(
    billing: Subscription, facts: FactRecorder, signed_in: Callable[..., Client]
) -> None:
    def handle(message: Any, context: Any) -> None:
        raise ValueError("not now")

    for n in range(2):
        shared_producer().publish(ONE[0], {"n": n}, PublishOptions(key="room-1"))
    policy = SubscriptionPolicy(*ONE, RetryPolicy(5, (600.0,)), ordering="key", partitions=4)
    consumer = Consumer(bus.transport(), policy, handle, name="node-1", facts=facts)
    consumer.start()
    try:
        until(lambda: "retried" in facts.kinds())
        book(facts)
        page = signed_in().get(reverse("subscriptions:order", args=ONE), {"key": "room-1"}).context["page"]
        (blocked,) = page.blocked
        assert (blocked.key, blocked.attempt, blocked.error) == ("room-1", 1, "ValueError: not now")
        assert blocked.due_ms > SystemClock().now_ms()
        assert (page.one.state, [step.state for step in page.one.steps]) == ("blocked", ["retrying", "waiting"])
    finally:
        consumer.stop(5.0)


def test_a_subscription_without_order_is_said_to_have_none(
    topic: Any, signed_in: Callable[..., Client], committed: Callable[..., None]
) -> None:
    committed(
        lambda: subscriptions.create_subscription(SYSTEM, SubscriptionDraft(topic.name, "billing", "Reservations"))
    )
    answer = signed_in().get(reverse("subscriptions:order", args=[topic.name, "billing"]))
    assert (answer.status_code, answer.context["page"].partitions) == (200, [])
    assert "This topic keeps no order" in answer.content.decode()
    with pytest.raises(BadInput):
        subscriptions.unpark(OPERATOR, topic.name, "billing", "a", head="retry", reason="why")


def test_the_subscriptions_page_has_the_partitions_and_leads_to_the_order(
    parked: Consumer, signed_in: Callable[..., Client]
) -> None:
    text = signed_in().get(reverse("subscriptions:detail", args=ONE)).content.decode()
    assert reverse("subscriptions:order", args=ONE) in text
    assert "4, each read by one consumer at a time" in text
    assert "3 parked" in text


def test_a_store_that_has_no_such_group_is_said_so(billing: Subscription, signed_in: Callable[..., Client]) -> None:
    bus.admin().delete_group(*ONE)
    answer = signed_in().get(reverse("subscriptions:order", args=ONE))
    assert answer.status_code == 200
    assert "The store does not know this subscription" in answer.content.decode()


def test_nothing_is_there_for_an_unknown_subscription() -> None:
    with pytest.raises(NotThere):
        subscriptions.unpark(OPERATOR, ONE[0], "nobody", "a", head="retry", reason="why")


@pytest.mark.parametrize("record", [b"", b"\xff", b"{}", b"[" * 20_000])
def test_a_key_whose_record_nobody_can_read_is_shown_and_decided_about(
    parked: Consumer, signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, record: bytes
) -> None:
    keeper = type(order_page.carrier(Subscription.objects.get(group=ONE[1])))
    listing, deciding = keeper.parked, keeper.unpark

    def unreadable(self: Any, *args: Any, **named: Any) -> Any:
        return [msgspec.structs.replace(each, record=record) for each in listing(self, *args, **named)]

    def as_it_lies(self: Any, *args: Any, seen: Any, **named: Any) -> Any:
        (lies,) = listing(self, *args[:2])
        assert seen.record == record
        return deciding(self, *args, seen=lies, **named)

    monkeypatch.setattr(keeper, "parked", unreadable)
    monkeypatch.setattr(keeper, "unpark", as_it_lies)
    client, address = signed_in(Role.OPERATOR), reverse("subscriptions:order", args=ONE)
    page = client.get(address)
    assert page.status_code == 200
    (waiting,) = page.context["page"].parked
    form = {"key": waiting.handle, "head": "skip", "reason": "nobody can read it"}
    assert client.post(reverse("subscriptions:unpark", args=ONE), form).status_code in (200, 302)
    assert order_page.parked_keys(Subscription.objects.get(group=ONE[1])) == []


@pytest.mark.sqlite
def test_keys_that_wait_are_found_by_the_index_of_failures(billing: Subscription) -> None:
    """Found by a stranger at four million events: the kind came as a parameter, and the whole table was read."""
    with plans("ledger") as seen:
        order_page._blocked(billing, SystemClock().now_ms(), None)
    assert all("ledger_event" in plan and "SCAN" not in plan for plan in seen.of("ledger_ledgerevent"))
    assert "USING INDEX ledger_event_" in seen.of("ledger_ledgerevent")[0]
