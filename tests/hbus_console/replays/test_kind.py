from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from engine.bus.conformance.running import FactRecorder
from engine.bus.consumer import Consumer
from engine.bus.message import Message, encode
from engine.bus.options import PublishOptions
from engine.bus.policy import SubscriptionPolicy
from engine.bus.producer import Receipt
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden, ScopedRole
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.evidence.freshness import Freshness
from hbus_console.operations import reading, services
from hbus_console.operations.models import OperationItem
from hbus_console.operations.runner import OperationRunner
from hbus_console.outbox.models import OutboxMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.replays import kind as replays
from hbus_console.replays import spec as specs
from hbus_console.schemas.models import SchemaVersion
from hbus_console.subscriptions import holding
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.engine.bus.hostile_payloads import HOSTILE, hostile_message
from tests.hbus_console.operations.asking import asked_in_transaction
from tests.hbus_console.replays.conftest import TOPIC, MakeUser, copies, replay, run, stored
from tests.unhurried import UnhurriedClock

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


def test_chosen_messages_come_again_as_copies_for_one_subscription(editor: Actor, published: list[Receipt]) -> None:
    originals = {message.id: message for message in stored()}

    operation = replay(editor, filter='payload.hotel == "Resort" and key == "H-0"', into_group="availability")

    assert (operation.state, operation.done, operation.scanned) == ("settling", 10, 40)
    made = copies()
    assert len(made) == 10
    for copy in made:
        original = originals[copy.causationid]
        assert copy.id not in originals
        assert (copy.data, copy.correlationid, copy.partitionkey) == (
            original.data,
            original.correlationid,
            original.partitionkey,
        )
        assert (copy.hbustarget, original.json()["hotel"]) == ("availability", "Resort")
    results = {item.name: item.made.name for item in OperationItem.objects.filter(operation=operation) if item.made}
    assert results == {copy.causationid: copy.id for copy in made}
    assert AuditEntry.objects.get(seq=operation.audit_seq).after["spec"]["into_group"] == "availability"
    assert operation.note == "Scanned 40, matched 10, reached the end of the range"


def test_no_step_asks_the_store_while_other_writers_wait(
    editor: Actor, published: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_in_transaction(monkeypatch)
    assert replay(editor, into_group="availability").done == 40
    assert set(asked) == {False}


def test_handlers_see_that_it_is_a_replay_and_other_groups_settle_it_unhandled(
    editor: Actor, published: list[Receipt]
) -> None:
    replay(editor, key="H-1", into_group="availability")
    handled: dict[str, list[bool]] = {"availability": [], "billing": []}
    everything = threading.Event()

    def handler(group: str) -> Any:
        def handle(_: Any, context: Any) -> None:
            handled[group].append(context.replayed)
            if (len(handled["availability"]), len(handled["billing"])) == (60, 40):
                everything.set()

        return handle

    consumers = [
        Consumer(bus.transport(), SubscriptionPolicy(TOPIC, group), handler(group), name=group, facts=FactRecorder())
        for group in handled
    ]
    for consumer in consumers:
        consumer.start()
    assert everything.wait(20), {group: len(seen) for group, seen in handled.items()}
    for consumer in consumers:
        consumer.stop(5.0)
    assert sum(handled["availability"]) == 20
    assert not any(handled["billing"])
    assert bus.admin().lag(TOPIC, "billing").unsettled == 0


def test_into_another_topic_they_are_for_all(editor: Actor, published: list[Receipt]) -> None:
    operation = replay(editor, after=published[29].position, into_topic="booking.again")
    assert operation.done == 10
    assert [message.json()["n"] for message in stored("booking.again")] == list(range(30, 40))
    assert {message.hbustarget for message in stored("booking.again")} == {""}
    assert copies(TOPIC) == []


def test_a_range_of_positions_has_both_ends(editor: Actor, published: list[Receipt]) -> None:
    replay(editor, after=published[4].position, until=published[9].position, into_group="billing")
    assert [message.json()["n"] for message in copies()] == [5, 6, 7, 8, 9]


def test_what_comes_after_the_start_is_not_replayed(editor: Actor, published: list[Receipt]) -> None:
    spec = {"topic": TOPIC, "into_group": "billing"}
    operation = services.start(editor, "replay", spec, reason="why", rate_per_s=0).operation
    shared_producer().publish(TOPIC, {"n": 99, "hotel": "City", "guest": "g"}, PublishOptions(key="late"))
    late_ms = bus.admin().browse(TOPIC, newest_first=True, limit=1).entries[0].at_ms
    operation.spec["to_ms"] = late_ms - 1
    operation.save()
    run(operation)
    assert 99 not in [message.json()["n"] for message in copies()]


def test_the_same_replay_under_way_claims_nothing_that_came_since(editor: Actor, published: list[Receipt]) -> None:
    spec = {"topic": TOPIC, "into_group": "availability"}
    first = services.start(editor, "replay", spec, reason="why").operation
    services.pause(editor, first.pk, "lunch")
    again = services.start(editor, "replay", spec, reason="why")
    assert (again.new, again.operation.pk) == (False, first.pk)
    assert again.sentence.endswith(
        "does this already. It takes what was there when it was begun; what came since is not in it."
    )


def test_copies_for_another_subscription_are_left(editor: Actor, published: list[Receipt]) -> None:
    replay(editor, key="H-1", into_group="availability")
    second = replay(editor, into_group="billing")
    assert second.done == 40


def test_a_step_that_is_repeated_after_a_crash_publishes_once(
    editor: Actor, published: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.operations.runner.STEP", 10)
    operation = services.start(editor, "replay", {"topic": TOPIC, "into_group": "billing"}, reason="why").operation
    # The database breaks as the second step commits: its copies, results and cursor go together
    broken = {"at": 2}
    write = OperationRunner._write

    def breaks(self: OperationRunner, *args: Any, **values: Any) -> None:
        broken["at"] -= 1
        if broken["at"] == 0:
            raise RuntimeError("killed")
        write(self, *args, **values)

    monkeypatch.setattr(OperationRunner, "_write", breaks)
    OperationRunner(UnhurriedClock()).tick()
    assert OutboxMessage.objects.count() == OperationItem.objects.count() == 10

    monkeypatch.setattr(OperationRunner, "_write", write)
    run(operation)
    assert sorted(message.json()["n"] for message in copies()) == list(range(40))


def test_a_dry_run_says_how_far_it_looked(
    editor: Actor, published: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"topic": TOPIC, "filter": "payload.n >= 35", "into_group": "billing"}
    plan = services.dry_run(editor, "replay", spec)
    assert (plan.total, plan.scanned) == (5, "Scanned 40, matched 5, stopped because the end of the range was reached")
    assert "masked" in plan.samples[0].detail
    assert "g35" not in plan.samples[0].detail

    monkeypatch.setattr(replays, "PLAN_MOST", 30)
    plan = services.dry_run(editor, "replay", spec)
    assert (plan.total, plan.scanned) == (
        None,
        "Scanned 30, matched 0, stopped because a dry run looks at 30 messages at most",
    )
    # Big messages take their time.
    ticking = ManualClock()
    fit = replays._fit_to_copy

    def slowly(message: Message) -> bool:
        ticking.advance(0.25)
        return fit(message)

    monkeypatch.setattr(replays, "_fit_to_copy", slowly)
    wanted = specs.read(editor, {"topic": TOPIC, "into_group": "billing"}, SystemClock().now_ms())
    plan = replays.survey(editor, wanted, clock=ticking)
    assert (plan.total, plan.scanned) == (
        None,
        "Scanned 8, matched 8, stopped because a dry run looks for 2 seconds at most",
    )
    assert copies() == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"topic": "nowhere", "into_group": "billing"}, "spec.topic"),
        ({}, "spec.into_group"),
        ({"into_group": "nobody"}, "spec.into_group"),
        ({"into_group": "billing", "into_topic": "booking.again"}, "spec.into_group"),
        ({"into_topic": TOPIC}, "spec.into_topic"),
        ({"into_topic": "nowhere"}, "spec.into_topic"),
        ({"into_group": "billing", "from": "yesterday"}, "spec.from"),
        ({"into_group": "billing", "from": "2026-11-21T00:00:00Z", "to": "2026-11-20T00:00:00Z"}, "spec.from"),
        ({"into_group": "billing", "filter": "payload.n =="}, "spec.filter"),
        ({"into_group": "billing", "after": "01NOBODY"}, "spec.after"),
        ({"into_group": "billing", "until": "01NOBODY"}, "spec.until"),
        ({"into_group": "billing", "speed": "1"}, "spec.speed"),
        ({"into_group": "billing", "key": 5}, "spec.key"),
    ],
)
def test_bad_replays_are_refused(editor: Actor, published: list[Receipt], spec: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        services.dry_run(editor, "replay", {"topic": TOPIC, **spec})
    assert refused.value.field == field
    assert refused.value.remedy


def test_permissions(topic: Topic, published: list[Receipt], make_user: MakeUser) -> None:
    def asks(role: str, scope: str, **spec: str) -> None:
        who = actor_of(make_user(role, scope, f"{role}-{User.objects.count()}"))
        services.dry_run(who, "replay", {"topic": TOPIC, "into_group": "billing", **spec})

    with pytest.raises(Forbidden):
        asks("operator", "*")
    with pytest.raises(Forbidden):
        asks("editor", "invoice.*")
    asks("editor", "booking.*")
    # Whoever may ask whether a hidden value is so may find out what it is
    for filter_ in ('payload.guest == "g1"', "exists(payload)"):
        with pytest.raises(Forbidden):
            asks("editor", "*", filter=filter_)
        asks("governor", "*", filter=filter_)
    asks("editor", "*", filter="payload.hotel == 'City'")


def test_who_lost_the_permission_does_not_go_on(editor: Actor, published: list[Receipt]) -> None:
    operation = services.start(editor, "replay", {"topic": TOPIC, "into_group": "billing"}, reason="why").operation
    User.objects.get(username="edith").grants.all().delete()
    run(operation)
    assert (operation.state, copies()) == ("failed", [])
    assert "may not" in operation.last_error


MOVE = {"topic": TOPIC, "into_topic": "booking.again"}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ({}, {"masked_fields": []}),
        ({}, {"masked_fields": ["guest.name"]}),
        ({"masked_fields": [], "classification": "personal"}, {"masked_fields": []}),
    ],
)
def test_what_the_target_does_not_hide_goes_there_by_who_may_reveal_it(
    published: list[Receipt], make_user: MakeUser, source: dict[str, Any], target: dict[str, Any]
) -> None:
    Topic.objects.filter(name=TOPIC).update(**source)
    Topic.objects.filter(name="booking.again").update(**target)
    with pytest.raises(Forbidden, match=r"reveal masked fields on booking.created, which booking.again does not hide"):
        services.dry_run(actor_of(make_user()), "replay", MOVE)
    # To reveal there is not to reveal here.
    narrow = make_user("editor", "booking.*", "gustav")
    narrow.grants.create(role="governor", scope="booking.again")
    with pytest.raises(Forbidden):
        services.dry_run(actor_of(narrow), "replay", MOVE)
    services.dry_run(actor_of(make_user("governor", "*", "gova")), "replay", MOVE)


@pytest.mark.parametrize(("target", "revealed"), [({"masked_fields": []}, 1), ({"masked_fields": ["guest"]}, 0)])
def test_what_the_target_shows_is_audited_as_revealed_once(
    published: list[Receipt], make_user: MakeUser, target: dict[str, Any], revealed: int
) -> None:
    Topic.objects.filter(name="booking.again").update(**target)
    operation = services.start(actor_of(make_user("governor")), "replay", MOVE, reason="a move").operation
    run(operation)
    entries = list(AuditEntry.objects.filter(action="payload.reveal"))
    assert len(entries) == revealed
    for entry in entries:
        assert (entry.target, entry.reason) == (TOPIC, f"operation {operation.pk}: a move")
        assert entry.after == {"fields": ["guest"], "classification": "internal", "into_topic": "booking.again"}


def test_a_target_that_hides_as_much_takes_it(published: list[Receipt], editor: Actor) -> None:
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest.name", "guests[].mail"])
    Topic.objects.filter(name="booking.again").update(masked_fields=["guest", "guests.mail", "room"])
    services.dry_run(editor, "replay", MOVE)


def test_what_is_hidden_goes_to_no_topic_where_the_actor_may_reveal_it_or_a_webhook_takes_it(
    published: list[Receipt], editor: Actor, make_user: MakeUser
) -> None:
    narrow = make_user("editor", "booking.*", "gustav")
    narrow.grants.create(role="governor", scope="booking.again")
    person = actor_of(narrow)
    # A token of theirs that may not reveal there is put down again, and the person looks.
    token = replace(person, kind="token", limit=ScopedRole(Role.EDITOR, "booking.*"), token_id=7)
    for actor in (person, token):
        with pytest.raises(Forbidden, match=r"which they may reveal on booking.again"):
            services.dry_run(actor, "replay", MOVE)
    Subscription.objects.create(topic=Topic.objects.get(name="booking.again"), group="out", handler="webhook")
    with pytest.raises(Forbidden, match=r"which webhooks on booking.again would send out"):
        services.dry_run(editor, "replay", MOVE)


def test_masks_added_after_the_start_hold_it(editor: Actor, published: list[Receipt]) -> None:
    operation = services.start(editor, "replay", MOVE, reason="why").operation
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest", "hotel"])
    run(operation)
    assert (operation.state, stored("booking.again")) == ("failed", [])
    assert "may not reveal" in operation.last_error


def test_who_may_no_longer_reveal_does_not_go_on_asking(published: list[Receipt], make_user: MakeUser) -> None:
    governor = make_user("governor", "*", "gova")
    spec = {"topic": TOPIC, "into_group": "billing", "filter": 'payload.guest == "g1"'}
    operation = services.start(actor_of(governor), "replay", spec, reason="why").operation
    governor.grants.update(role="editor")
    run(operation)
    assert (operation.state, copies()) == ("failed", [])
    assert "may not reveal" in operation.last_error


def test_a_refusal_does_not_tell_what_exists(published: list[Receipt], make_user: MakeUser) -> None:
    narrow = actor_of(make_user("editor", "booking.created"))
    for spec in (
        {"topic": TOPIC, "into_topic": "booking.again"},
        {"topic": TOPIC, "into_topic": "booking.nowhere"},
        {"topic": "booking.nowhere", "into_group": "billing"},
    ):
        with pytest.raises(Forbidden):
            services.dry_run(narrow, "replay", spec)


AGAIN = "billing does not know them again: copies have new ids, so what was handled before is done again."


def test_who_does_not_take_them_now_is_said_before(
    editor: Actor, published: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"topic": TOPIC, "into_group": "billing"}
    monkeypatch.setattr(holding, "open_breakers", lambda pairs: {(TOPIC, "billing"): "open"})
    assert services.dry_run(editor, "replay", spec).warnings == [
        "The copies will wait behind the open breaker of billing.",
        AGAIN,
    ]
    Subscription.objects.filter(group="billing").update(paused=True, transactional=True)
    assert services.dry_run(editor, "replay", spec).warnings == [
        "The copies will wait because billing is paused.",
        "billing keeps an inbox, but copies have new ids, so what was handled before is done again.",
    ]


def test_what_does_not_fit_where_it_goes_is_said_before_and_left(admin: Actor, published: list[Receipt]) -> None:
    into = Topic.objects.get(name="booking.again")
    body = {"type": "object", "properties": {"n": {"maximum": 29}}}
    SchemaVersion.objects.create(topic=into, version=1, body=body, created_by="ana")
    plan = services.dry_run(admin, "replay", {"topic": TOPIC, "into_topic": into.name})
    assert plan.total == 30
    assert plan.warnings == ["10 messages will be left: it does not fit the schema of booking.again, at n."]
    assert plan.scanned.startswith("Scanned 40, matched 40 (10 of them left), stopped because")
    operation = replay(admin, into_topic=into.name)
    assert (operation.done, operation.failed) == (30, 10)
    assert operation.note == "Scanned 40, matched 40 (10 of them left), reached the end of the range"
    assert reading.sentences([operation], Freshness())[operation.pk].startswith("copied; ")


def test_a_schema_tells_nobody_what_is_masked(editor: Actor, published: list[Receipt]) -> None:
    into = Topic.objects.get(name="booking.again")
    body = {"type": "object", "properties": {"guest": {"const": "g7"}}}
    SchemaVersion.objects.create(topic=into, version=1, body=body, created_by="edith")
    plan = services.dry_run(editor, "replay", {"topic": TOPIC, "into_topic": into.name})
    assert plan.total == 40
    # How many do not fit would tell it as well: but that nobody looked is said.
    (warning,) = plan.warnings
    assert warning.startswith("The copies are not checked against the schema of booking.again: ")


def test_that_the_copies_show_what_is_masked_is_said_before(admin: Actor, published: list[Receipt]) -> None:
    Topic.objects.filter(name="booking.again").update(masked_fields=[])
    plan = services.dry_run(admin, "replay", {"topic": TOPIC, "into_topic": "booking.again"})
    assert plan.warnings == [
        "The copies show what booking.created masks: booking.again masks less, or sends out. "
        "The audit log will say that you revealed it."
    ]


def test_what_is_no_json_is_left_where_it_lies(editor: Actor, published: list[Receipt]) -> None:
    for number, text in enumerate(HOSTILE.values()):
        bus.transport().publish(TOPIC, [Outgoing(f"m{number}", encode(hostile_message(f"m{number}", text)))])
    operation = replay(editor, into_group="availability")
    assert (operation.state, operation.done, operation.failed) == ("settling", 40, len(HOSTILE))
    whys = set(OperationItem.objects.filter(operation=operation, result="failed").values_list("detail", flat=True))
    assert whys == {"its payload is not JSON", "its envelope cannot be read"}
    made = [item.made.name for item in OperationItem.objects.filter(operation=operation) if item.made]
    assert len(made) == 40


@pytest.mark.parametrize(
    ("change", "cause"), [({"team": None}, "has no owner"), ({"name": "booking.gone"}, "no topic 'booking.again'")]
)
def test_a_topic_that_takes_none_at_all_stops_the_replay_instead_of_failing_each(
    editor: Actor, published: list[Receipt], change: dict[str, Any], cause: str
) -> None:
    spec = {"topic": TOPIC, "into_topic": "booking.again"}
    operation = services.start(editor, "replay", spec, reason="why", rate_per_s=0).operation
    Topic.objects.filter(name="booking.again").update(**change)
    catalog.changed()
    run(operation)
    operation.refresh_from_db()
    assert (operation.state, operation.failed, operation.scanned) == ("failed", 0, 0)
    assert cause in operation.last_error
    if "team" in change:
        assert cause in services.dry_run(editor, "replay", spec).obstacle


def test_a_copy_that_its_topic_would_not_take_is_left_and_said_before(editor: Actor, published: list[Receipt]) -> None:
    sizes = sorted(len(entry.body) for entry in bus.admin().browse(TOPIC).entries)
    # The originals fit, and their copies say where they come from.
    Topic.objects.filter(name=TOPIC).update(max_bytes=sizes[-1])
    catalog.changed()
    plan = services.dry_run(editor, "replay", {"topic": TOPIC, "into_group": "availability"})
    assert any(f"larger than {TOPIC} takes" in warning for warning in plan.warnings), plan.warnings

    with pytest.raises(BadInput, match="nothing to do"):
        replay(editor, into_group="availability")
    assert not OutboxMessage.objects.exists()
