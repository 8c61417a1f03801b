"""A letter whose topic was deleted, and another made under its name that hides nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine.bus.conformance.running import FactRecorder
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters import editing, reading, services
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.message_trace import life
from hbus_console.messages.reveal import reveal
from hbus_console.operations import services as operations
from hbus_console.operations.models import OperationItem
from hbus_console.operations.runner import OperationRunner
from hbus_console.outbox.models import OutboxMessage
from hbus_console.topics.models import Topic
from tests.hbus_console.deadletters.conftest import MakeLetter, person
from tests.unhurried import UnhurriedClock

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def letter(make_letter: MakeLetter, facts: FactRecorder) -> DeadLetter:
    """It died a minute before the topic of its name was made."""
    made = make_letter()
    Topic.objects.update(created_at=made.died_at + timedelta(minutes=1), classification="public")
    return made


def test_it_stays_hidden(letter: DeadLetter) -> None:
    topic = Topic.objects.get()
    shown = reading.as_json(person("editor"), letter, topic)
    assert (shown["payload"], shown["masked"]) == ("masked · unknown", ["*"])
    assert editing.draft(letter).obstacle
    payload = life(person("editor"), letter.message_id).payload
    assert payload is not None
    assert (payload.value, payload.hidden) == ("masked · unknown", ("*",))


def test_who_may_reveal_sees_it_for_a_reason(letter: DeadLetter) -> None:
    with pytest.raises(Forbidden):
        reveal(person("editor"), letter.message_id, "why")
    assert reveal(person("governor"), letter.message_id, "why").payload.value == {"room": "DBL-SEA"}
    assert AuditEntry.objects.filter(action="payload.reveal").exists()


def test_it_is_published_again_by_who_may_reveal_it(letter: DeadLetter, operator: Actor) -> None:
    with pytest.raises(Forbidden, match="before that topic was made"):
        services.redrive(operator, letter.pk, "why")
    assert not OutboxMessage.objects.exists()
    letter.refresh_from_db()
    assert letter.state == "dead"
    assert not AuditEntry.objects.filter(action="payload.reveal").exists()
    assert services.redrive(person("governor"), letter.pk, "why").done
    assert OutboxMessage.objects.exists()
    entry = AuditEntry.objects.get(action="payload.reveal")
    assert (entry.subject, entry.reason) == (letter.subject, "why")
    assert entry.after == {
        "fields": ["*"],
        "classification": "unknown",
        "topic": letter.topic,
        "redriven_as": OutboxMessage.objects.get().message_id,
    }


def test_many_at_once_leave_it(letter: DeadLetter, make_letter: MakeLetter) -> None:
    younger = make_letter(died_at=Topic.objects.get().created_at)
    user = User.objects.create(username="olga")
    user.grants.create(role="operator", scope="*")
    operations.start(actor_of(user), "redrive", {"topic": letter.topic}, reason="why")
    OperationRunner(UnhurriedClock()).tick()
    results = {item.name: item.result for item in OperationItem.objects.all()}
    assert results == {letter.message_id: "failed", younger.message_id: "done"}
