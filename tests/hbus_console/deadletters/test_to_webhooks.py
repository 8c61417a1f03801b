"""Letters that died in a webhook which is older than the masks of its topic."""

from __future__ import annotations

import pytest

from engine.bus.conformance.running import FactRecorder
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters import services
from hbus_console.deadletters.models import DeadLetter
from hbus_console.operations import services as operations
from hbus_console.operations.models import OperationItem
from hbus_console.operations.runner import OperationRunner
from hbus_console.outbox.models import OutboxMessage
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.hbus_console.deadletters.conftest import MakeLetter, person
from tests.unhurried import UnhurriedClock

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def letter(make_letter: MakeLetter, facts: FactRecorder) -> DeadLetter:
    made = make_letter()
    Subscription.objects.update(handler="webhook", webhook_url="https://93.184.216.34/hook", handler_name="")
    Topic.objects.update(masked_fields=["room"], classification="personal")
    return made


def someone(role: str) -> Actor:
    user = User.objects.create(username=role)
    user.grants.create(role=role, scope="*")
    return actor_of(user)


def test_a_webhook_is_sent_again_what_is_masked_by_who_may_reveal_it(letter: DeadLetter, operator: Actor) -> None:
    assert "which a webhook would send out" in services.effect(operator, letter).obstacle
    for act in (
        lambda: services.redrive(operator, letter.pk, "why"),
        lambda: services.redrive_edited(person("editor"), letter.pk, {"room": "masked · personal", "n": 1}, "why"),
    ):
        with pytest.raises(Forbidden, match="which a webhook would send out"):
            act()
    assert not OutboxMessage.objects.exists()
    assert not AuditEntry.objects.filter(action="payload.reveal").exists()
    governor = person("governor")
    assert (services.effect(governor, letter).reveals, services.effect(governor, letter).obstacle) == (True, "")
    assert services.redrive(governor, letter.pk, "they have mended it").done
    entry = AuditEntry.objects.get(action="payload.reveal")
    assert (entry.subject, entry.reason) == (letter.subject, "they have mended it")
    assert entry.after == {
        "fields": ["room"],
        "classification": "personal",
        "topic": letter.topic,
        "redriven_as": OutboxMessage.objects.get().message_id,
        "subscription": "partner-sync",
    }


@pytest.mark.parametrize("changed", [{"handler": "code"}, {"topic__masked_fields": []}])
def test_what_shows_nothing_is_redriven_as_ever(
    letter: DeadLetter, operator: Actor, changed: dict[str, object]
) -> None:
    if "handler" in changed:
        Subscription.objects.update(**changed)
    else:
        Topic.objects.update(masked_fields=[], classification="internal")
    assert services.redrive(operator, letter.pk, "why").done
    assert not AuditEntry.objects.filter(action="payload.reveal").exists()


def test_many_at_once_are_left_and_the_dry_run_says_so(letter: DeadLetter) -> None:
    spec = {"topic": letter.topic}
    assert (
        operations.dry_run(someone("operator"), "redrive", spec)
        .warnings[0]
        .startswith("1 will be left: partner-sync is a webhook, which is sent whole what booking.changed masks")
    )
    operations.start(actor_of(User.objects.get(username="operator")), "redrive", spec, reason="why")
    OperationRunner(UnhurriedClock()).tick()
    assert [item.result for item in OperationItem.objects.all()] == ["failed"]
    assert not OutboxMessage.objects.exists()


def test_many_at_once_go_by_who_may_reveal_them(letter: DeadLetter) -> None:
    governor, spec = someone("governor"), {"topic": letter.topic}
    assert "you revealed it" in operations.dry_run(governor, "redrive", spec).warnings[0]
    operations.start(governor, "redrive", spec, reason="why")
    OperationRunner(UnhurriedClock()).tick()
    assert OutboxMessage.objects.count() == 1
    assert AuditEntry.objects.get(action="payload.reveal").after["subscription"] == "partner-sync"
