from __future__ import annotations

import msgspec
import pytest
from django.db import transaction

from engine.bus.conformance.running import FactRecorder
from engine.bus.errors import OwnerlessTopic, PublishRefused
from engine.bus.message import decode
from engine.core.clock import ManualClock
from engine.core.errors import BadInput, NotThere
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters import editing, services
from hbus_console.deadletters.models import DeadLetter
from hbus_console.operations.outcomes import Fate, Outcome
from hbus_console.outbox.models import OutboxMessage
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from tests.hbus_console.deadletters.conftest import MakeLetter, person

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("facts")]

REASON = "room code map 2.4.2 deployed"


def test_the_copy_is_a_new_message_for_the_subscription_where_it_died(operator: Actor, make_letter: MakeLetter) -> None:
    letter = make_letter()
    decision = services.redrive(operator, letter.pk, REASON)

    row = OutboxMessage.objects.get()
    copy = decode(bytes(row.body))
    assert (row.topic, row.key, row.message_id) == ("booking.changed", letter.key, copy.id)
    assert copy.id not in ("", letter.message_id)
    assert copy.id == decision.letter.redriven_as
    assert (copy.causationid, copy.hbustarget, copy.hbusreplay) == (letter.message_id, "partner-sync", "redrive")
    assert (copy.correlationid, copy.partitionkey) == (letter.correlation_id, letter.key)
    assert copy.extensions == {"tenant": "lisbon"}
    assert copy.json() == {"room": "DBL-SEA"}
    assert copy.traceparent.startswith("00-4bf92f3577b34da6a3ce929d0e0e4736-")


def test_letter_audit_entry_and_message_agree(operator: Actor, make_letter: MakeLetter) -> None:
    letter = make_letter()
    decision = services.redrive(operator, letter.pk, REASON)
    letter.refresh_from_db()
    assert (letter.state, letter.decided_by, letter.reason) == ("redriven", "ops-lisbon", REASON)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target_type, entry.target) == ("dead_letter.redrive", "message", letter.message_id)
    assert (entry.actor, entry.reason, entry.namespace) == ("ops-lisbon", REASON, "booking.changed")
    assert entry.after["redriven_as"] == letter.redriven_as
    assert decision.done
    assert letter.redriven_as in decision.sentence


def test_a_copy_in_the_outbox_is_told_as_not_published(operator: Actor, make_letter: MakeLetter) -> None:
    letter = services.redrive(operator, make_letter().pk, REASON).letter
    waits, settled = Fate(Outcome.WAITING, "behind others"), Fate(Outcome.SETTLED)
    told = services.fate_of(letter, waits)
    assert told == Fate(Outcome.WAITING, "in the outbox: published once the store takes it")
    assert (services.fate_of(letter, settled), services.fate_of(letter, None)) == (settled, None)
    OutboxMessage.objects.all().delete()
    assert services.fate_of(letter, waits) == waits


def test_a_second_click_does_nothing_and_says_so(operator: Actor, make_letter: MakeLetter) -> None:
    letter = make_letter()
    services.redrive(operator, letter.pk, REASON)
    again = services.redrive(person("operator", name="somebody-else"), letter.pk, REASON)
    assert not again.done
    assert again.sentence == "Nothing was done: ops-lisbon had redriven it before."
    assert OutboxMessage.objects.count() == 1
    assert AuditEntry.objects.count() == 1


def test_of_two_clicks_at_once_one_goes_through(
    operator: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a second person who decides after this one has read the letter
    letter = make_letter()
    stale = DeadLetter.objects.get(pk=letter.pk)
    services.discard(person("operator", name="quicker"), letter.pk, "not needed")
    monkeypatch.setattr(services, "letter_for", lambda *_: stale)
    decision = services.redrive(operator, letter.pk, REASON)
    assert not decision.done
    assert "quicker had discarded it" in decision.sentence
    assert OutboxMessage.objects.count() == 0


def test_without_an_audit_entry_nothing_happens(
    operator: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no audit")

    letter = make_letter()
    monkeypatch.setattr(services, "record", fail)
    with pytest.raises(RuntimeError):
        services.redrive(operator, letter.pk, REASON)
    letter.refresh_from_db()
    assert letter.state == "dead"
    assert OutboxMessage.objects.count() == 0


@pytest.mark.parametrize("reason", ["", "   "])
def test_a_reason_is_needed(operator: Actor, make_letter: MakeLetter, reason: str) -> None:
    letter = make_letter()
    for act in (services.redrive, services.discard):
        with pytest.raises(BadInput) as refused:
            act(operator, letter.pk, reason)
        assert refused.value.field == "reason"
    assert DeadLetter.objects.get().state == "dead"


def test_an_expiry_that_has_passed_is_left_out(operator: Actor, make_letter: MakeLetter) -> None:
    clock = ManualClock()
    passed = make_letter({"expirytime": "2020-01-01T00:00:00Z"})
    ahead = make_letter({"expirytime": "2099-01-01T00:00:00Z"})
    assert services.effect(operator, passed, clock=clock).expired_at == "2020-01-01T00:00:00Z"
    assert services.effect(operator, ahead, clock=clock).expired_at == ""
    services.redrive(operator, passed.pk, REASON, clock=clock)
    services.redrive(operator, ahead.pk, REASON, clock=clock)
    expiries = [decode(bytes(row.body)).expirytime for row in OutboxMessage.objects.order_by("pk")]
    assert expiries == ["", "2099-01-01T00:00:00Z"]


def test_a_due_time_is_over(operator: Actor, make_letter: MakeLetter) -> None:
    services.redrive(operator, make_letter({"hbusdue": "2020-01-01T00:00:00Z"}).pk, REASON)
    assert OutboxMessage.objects.get().due_ms == 0


def test_a_subscription_that_is_gone_cannot_be_redriven_to(
    operator: Actor, make_letter: MakeLetter, subscription: Subscription
) -> None:
    letter = make_letter()
    subscription.delete()
    with pytest.raises(BadInput, match="no longer subscribed"):
        services.redrive(operator, letter.pk, REASON)


def test_an_unreadable_envelope_can_only_be_discarded(operator: Actor, make_letter: MakeLetter) -> None:
    letter = make_letter(body=b"\xff not an envelope")
    with pytest.raises(BadInput, match="unreadable"):
        services.redrive(operator, letter.pk, REASON)
    assert services.discard(operator, letter.pk, "garbage").done


@pytest.mark.parametrize("masked", [["room"], []])
def test_why_an_envelope_cannot_be_read_is_told_where_nothing_of_the_topic_is_masked(
    operator: Actor, make_letter: MakeLetter, masked: list[str]
) -> None:
    """What is quoted of it, or at which byte it ends, may be what is masked."""
    Topic.objects.update(masked_fields=masked, classification="internal")
    letter = make_letter(body=b'{"specversion":"1.0","id":"q","source":"x","type":"t","Anna 4111":"v"}')
    with pytest.raises(BadInput) as raised:
        services.redrive(operator, letter.pk, REASON)
    refused = f"{raised.value.what} {raised.value.remedy}"
    for said in (refused, services.effect(operator, letter).obstacle, editing.draft(letter).obstacle):
        assert "unreadable" in said
        assert ("Anna 4111" in said) is (not masked)


def test_an_ownerless_topic_takes_no_copy(operator: Actor, make_letter: MakeLetter) -> None:
    letter = make_letter()
    Topic.objects.update(team=None)
    with pytest.raises(OwnerlessTopic):
        services.redrive(operator, letter.pk, REASON)


def test_discarding_keeps_the_letter_with_who_and_why(operator: Actor, make_letter: MakeLetter) -> None:
    letter = make_letter()
    decision = services.discard(operator, letter.pk, "cancelled by phone")
    letter.refresh_from_db()
    assert (letter.state, letter.decided_by, letter.reason) == ("discarded", "ops-lisbon", "cancelled by phone")
    assert letter.decided_at is not None
    assert bytes(letter.body)
    assert AuditEntry.objects.get().action == "dead_letter.discard"
    assert "stays listed" in decision.sentence
    assert not services.redrive(operator, letter.pk, REASON).done


def test_a_viewer_may_not_decide_and_an_outsider_does_not_even_see(make_letter: MakeLetter) -> None:
    letter = make_letter()
    for act in (services.redrive, services.discard):
        with pytest.raises(Forbidden):
            act(person("viewer"), letter.pk, REASON)
        with pytest.raises(NotThere):
            act(person("admin", "stay.*"), letter.pk, REASON)
    assert DeadLetter.objects.get().state == "dead"


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
def test_facts_are_emitted_once_the_decision_stands(
    operator: Actor, make_letter: MakeLetter, facts: FactRecorder
) -> None:
    first, second, third = make_letter(), make_letter(), make_letter()
    services.redrive(operator, first.pk, REASON)
    services.discard(operator, second.pk, "not needed")
    try:
        with transaction.atomic():
            services.redrive(operator, third.pk, REASON)
            raise KeyError
    except KeyError:
        pass
    assert [(fact.kind, fact.message_id) for fact in facts.seen] == [
        ("redriven", first.message_id),
        ("discarded", second.message_id),
    ]
    assert facts.seen[0].trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert REASON in facts.seen[0].detail


def test_a_copy_that_is_larger_than_the_topic_takes_is_refused_and_the_letter_stays(
    operator: Actor, make_letter: MakeLetter
) -> None:
    letter = make_letter()
    # Given a letter that fits by itself, and whose copy says where it comes from
    Topic.objects.update(max_bytes=len(bytes(letter.body)) + 10)
    catalog.changed()

    assert "takes" in services.effect(operator, letter).obstacle
    with pytest.raises(PublishRefused, match="takes") as refused:
        services.redrive(operator, letter.pk, REASON)

    assert "raise the topic's limit" in refused.value.remedy
    letter.refresh_from_db()
    assert letter.state == "dead"
    assert not OutboxMessage.objects.exists()
    Topic.objects.update(max_bytes=1_048_576)
    catalog.changed()
    assert services.effect(operator, letter).obstacle == ""
    assert services.redrive(operator, letter.pk, REASON).done


def test_no_refusal_tells_letters_apart_by_the_size_of_what_is_masked_in_them(
    operator: Actor, make_letter: MakeLetter
) -> None:
    Topic.objects.update(masked_fields=["guest"], max_bytes=2_500)
    catalog.changed()
    said = set()
    for size in (3_000, 3_001):
        payload = {"guest": "x" * size, "room": "DBL"}
        letter = make_letter(message={"data": msgspec.Raw(msgspec.json.encode(payload))})
        kept = msgspec.json.decode(editing.draft(letter).text)
        with pytest.raises(PublishRefused) as as_it_is:
            services.redrive(operator, letter.pk, REASON)
        with pytest.raises(PublishRefused) as edited:
            services.redrive_edited(person("editor"), letter.pk, {**kept, "room": "SGL"}, REASON)
        said |= {f"{refused.value.what} {refused.value.remedy}" for refused in (as_it_is, edited)}
        said.add(services.effect(operator, letter).obstacle)
    (only,) = said
    assert "takes 2,500 bytes" in only


def test_an_edit_that_grows_past_the_limit_is_refused_and_one_that_shrinks_mends_it(
    operator: Actor, make_letter: MakeLetter
) -> None:
    editor = person("editor")
    letter = make_letter(message={"data": msgspec.Raw(b'"' + b"x" * 3_000 + b'"')})
    Topic.objects.update(max_bytes=2_500)
    catalog.changed()
    with pytest.raises(PublishRefused, match="takes"):
        services.redrive_edited(editor, letter.pk, "y" * 3_000, REASON)
    letter.refresh_from_db()
    assert letter.state == "dead"
    assert services.redrive_edited(editor, letter.pk, "y", REASON).done
