from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.core.management import call_command

from hbus_console.audit.models import AuditEntry
from hbus_console.outbox.models import OutboxMessage
from hbus_console.topics.models import Topic


@pytest.fixture
def refused(topic: Topic) -> OutboxMessage:
    return OutboxMessage.objects.create(
        topic=topic.name, message_id="m1", body=b"{}", refused_at=datetime.now(UTC), last_error="Topic has no owner."
    )


def test_status_tells_what_waits_and_why_something_was_refused(
    refused: OutboxMessage, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("outbox", "status")
    assert capsys.readouterr().out == "0 wait; 1 refused.\n  invoice.drafted m1: Topic has no owner.\n"
    call_command("outbox", "status", "--json")
    assert json.loads(capsys.readouterr().out) == {"waiting": 0, "refused": 1, "oldest_at": None}


def test_retry_offers_again_and_says_who_did_it(refused: OutboxMessage, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("outbox", "retry", "invoice.drafted", "--reason", "the owner is back")
    assert capsys.readouterr().out == "1 messages for invoice.drafted are offered again.\n"
    assert OutboxMessage.objects.get().refused_at is None
    entry = AuditEntry.objects.get(action="outbox.retry")
    assert entry.actor.endswith("@shell")
    assert entry.actor_kind == "shell"
