"""Replays into a webhook that is older than the masks of its topic."""

from __future__ import annotations

from typing import Any

import pytest

from engine.bus.producer import Receipt
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.audit.models import AuditEntry
from hbus_console.operations import services
from hbus_console.replays import kind as replays
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.replays.conftest import TOPIC, MakeUser, copies, run

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

SPEC = {"topic": TOPIC, "into_group": "spy"}


@pytest.fixture
def spy(published: list[Receipt]) -> Subscription:
    """A webhook that is older than the masks of its topic."""
    bus.admin().create_group(TOPIC, "spy")
    return Subscription.objects.create(
        topic=Topic.objects.get(name=TOPIC), group="spy", handler="webhook", webhook_url="https://x.example/"
    )


def test_a_webhook_is_replayed_what_is_masked_by_who_may_reveal_it(
    spy: Subscription, editor: Actor, make_user: MakeUser
) -> None:
    with pytest.raises(Forbidden, match="which a webhook would send out in clear"):
        services.dry_run(editor, "replay", SPEC)
    with pytest.raises(Forbidden):
        services.start(editor, "replay", SPEC, reason="why")
    governor = actor_of(make_user("governor", name="gova"))
    assert any("spy is a webhook" in said for said in services.dry_run(governor, "replay", SPEC).warnings)
    operation = services.start(governor, "replay", SPEC, reason="a new partner").operation
    run(operation)
    entry = AuditEntry.objects.get(action="payload.reveal")
    assert (entry.actor, entry.target, len(copies())) == ("gova", TOPIC, 40)
    assert entry.after == {"fields": ["guest"], "classification": "internal", "subscription": "spy"}


def test_masks_added_after_the_start_hold_a_replay_into_a_webhook(spy: Subscription, editor: Actor) -> None:
    Topic.objects.filter(name=TOPIC).update(masked_fields=[])
    operation = services.start(editor, "replay", SPEC, reason="why").operation
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"])
    run(operation)
    assert (operation.state, copies()) == ("failed", [])
    assert "may not reveal" in operation.last_error


def test_what_is_masked_on_the_way_is_audited_as_revealed(
    spy: Subscription, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "SCAN_MOST", 15)
    Topic.objects.filter(name=TOPIC).update(masked_fields=[])
    operation = services.start(actor_of(make_user("governor", name="gova")), "replay", SPEC, reason="why").operation
    revealed: list[int] = []
    plain = replays._publish

    def masking(*given: Any) -> Any:
        revealed.append(AuditEntry.objects.filter(action="payload.reveal").count())
        Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"])
        return plain(*given)

    monkeypatch.setattr(replays, "_publish", masking)
    run(operation)
    assert (len(copies()), revealed) == (40, [0, 1, 1])
