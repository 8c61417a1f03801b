"""Whether a message is stored is told also where no evidence of it came: its topic's log says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction
from django.test import Client

from engine.bus.options import PublishOptions
from engine.core.clock import to_datetime
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.messages import in_log
from hbus_console.outbox.models import OutboxMessage
from hbus_console.outbox.services import publish_on_commit
from hbus_console.publishing.producer import shared_producer
from hbus_console.topics.models import Topic
from hbus_console.topics.services.topic_rules import carrier_of
from hbus_console.wiring import bus
from tests.hbus_console.messages.conftest import TOPIC, publish

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("installation")]
#: A ULID of November 2023.
OLD = "01HF7YAT000000000000000000"
#: And one of January 2100.
AHEAD = "03QCPC7P000000000000000000"


def look(message_id: str, topic: str = TOPIC, scope: str = "*", source: str = "") -> in_log.InLog:
    user = User.objects.create(username=f"v{User.objects.count()}")
    user.grants.create(role="viewer", scope=scope)
    return in_log.look(actor_of(user), topic, message_id, source)


def test_what_lies_in_the_log_is_stored_and_what_does_not_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [publish() for _ in range(3)]
    monkeypatch.setattr(in_log, "_AT_ONCE", 1)
    assert [look(each).stored for each in ids] == [True] * 3
    assert look("never-published") == in_log.InLog(
        False,
        f"It is not in the log of {TOPIC}, by all that it holds, nor does it wait for its due time as one of "
        "/hbus/console.",
    )
    assert "by what was stored since 2023-11-14T" in look(OLD).said
    monkeypatch.setattr(in_log, "MOST", 2)
    assert look(ids[0]).stored is None


def test_what_waits_to_come_there_is_stored_or_kept() -> None:
    later = publish(delay_s=3_600)
    assert (look(later).stored, "waits for its due time" in look(later).said) == (True, True)
    # Of another source, which must be named.
    options = PublishOptions(delay_s=3_600, source="/pms", message_id="pms-1")
    shared_producer().publish(TOPIC, {"n": 1}, options)
    assert (look("pms-1").stored, look("pms-1", source="/pms").stored) == (False, True)
    assert "as one of /hbus/console" in look("pms-1").said
    with transaction.atomic():
        leaving = publish_on_commit(TOPIC, {"n": 1})
    assert (look(leaving).stored, "in the outbox" in look(leaving).said) == (True, True)
    OutboxMessage.objects.update(refused_at=to_datetime(1), last_error="too large")
    assert look(leaving) == in_log.InLog(
        False, "It is not stored: it lies in the outbox, and the bus refused it: too large"
    )
    # Who may not look into the log is told nothing of it either.
    assert look(later, scope="stay.*").stored is None


def test_one_of_its_id_from_another_source_is_another_message() -> None:
    shared_producer().publish(TOPIC, {"n": 1}, PublishOptions(source="/pms", message_id="twin"))
    with transaction.atomic():
        publish_on_commit(TOPIC, {"n": 1}, PublishOptions(source="/pms", message_id="leaving"))
    found = look("twin")
    assert (found.stored, "One of that id from /pms is in the log." in found.said) == (False, True)
    assert (look("twin", source="/pms").stored, look("leaving", source="/pms").stored) == (True, True)
    assert (look("leaving").stored, "from /pms" in look("leaving").said) == (False, False)
    publish(message_id="twin")
    assert look("twin").stored


def test_an_id_whose_clock_is_ahead_is_found_and_one_that_is_not_there_is_looked_for_in_all() -> None:
    assert "by all that it holds" in look(AHEAD).said
    publish(message_id=AHEAD)
    assert look(AHEAD).stored


def test_while_its_topic_moves_both_logs_are_looked_into_and_afterwards_what_is_gone_is_not_ruled_out() -> None:
    before = publish()
    made = Topic.objects.get(name=TOPIC)
    bus.admin("memory").create_topic(TOPIC)
    moved = {"transport": "memory", "moved_at": made.created_at + timedelta(seconds=1)}
    Topic.objects.filter(pk=made.pk).update(leaving=carrier_of(made.transport), **moved)
    assert look(before).stored
    assert look("never-published").stored is False
    Topic.objects.filter(pk=made.pk).update(leaving="")
    found = look(before)
    assert (found.stored, "before the topic moved" in found.said) == (None, True)


def test_where_nobody_may_or_can_look_nothing_is_claimed() -> None:
    published = publish()
    for topic, scope in ((TOPIC, "stay.*"), ("no.such.topic", "*")):
        found = look(published, topic, scope)
        assert (found.stored, "cannot tell" in found.said) == (None, True)


def test_the_page_of_a_message_without_evidence_says_it(sign_in: Callable[..., Client]) -> None:
    published, client = publish(), sign_in()
    young = client.get(f"/messages/{published}?topic={TOPIC}")
    assert (young.status_code, "It is stored: it lies in" in young.content.decode()) == (202, True)
    missing = client.get(f"/messages/{OLD}?topic={TOPIC}")
    assert (missing.status_code, "It is stored" in missing.content.decode()) == (404, False)
