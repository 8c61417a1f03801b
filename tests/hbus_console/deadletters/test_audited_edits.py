"""What the audit log shows of an edited payload once its topic masks more than it did then."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
from django.test import Client
from django.utils import timezone

from engine.bus.conformance.running import FactRecorder
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.verify import verify
from hbus_console.deadletters import services
from hbus_console.topics.models import Topic
from tests.hbus_console.deadletters.conftest import MakeLetter, person

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

HIDDEN = "masked · personal"
PAYLOAD = {"room": "DBL-SEA", "guest": {"name": "Friedrich Lindner"}}
#: Every way to read what stands in the entry.
READERS = {
    "list": lambda seq: "/api/v1/audit/entries?action=dead_letter.edit",
    "entry": lambda seq: f"/api/v1/audit/entries/{seq}",
    "page": lambda seq: f"/audit/{seq}/",
    "jsonl": lambda seq: "/api/v1/audit/export?as=jsonl",
    "csv": lambda seq: "/api/v1/audit/export?as=csv",
}


@pytest.fixture
def entry(make_letter: MakeLetter, facts: FactRecorder) -> AuditEntry:
    """Of an edit from a time when nothing was masked."""
    letter = make_letter(message={"data": msgspec.Raw(msgspec.json.encode(PAYLOAD))})
    services.redrive_edited(person("editor"), letter.pk, {**PAYLOAD, "room": "DBL"}, "wrong code")
    return AuditEntry.objects.get(action="dead_letter.edit")


@pytest.fixture
def reader(entry: AuditEntry) -> Client:
    user = User.objects.create_user("gova", password="x")
    user.grants.create(role="governor", scope="*")
    client = Client()
    client.force_login(user)
    return client


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    body = b"".join(answer) if answer.streaming else answer.content
    return body.decode()


@pytest.mark.parametrize("how", READERS)
def test_what_is_masked_since_is_masked_in_the_entry_of_an_edit(entry: AuditEntry, reader: Client, how: str) -> None:
    address = READERS[how](entry.seq)
    assert "Lindner" in read(reader, address)
    Topic.objects.update(masked_fields=["guest.name"], classification="personal")
    said = read(reader, address)
    assert "Lindner" not in said
    assert "DBL-SEA" in said
    assert "masked" in said


def test_no_search_of_the_log_tells_what_an_entry_hides(entry: AuditEntry, reader: Client) -> None:
    Topic.objects.update(masked_fields=["guest.name"], classification="personal")
    assert json.loads(read(reader, "/api/v1/audit/entries?q=Lindner"))["results"] == []
    assert [each["seq"] for each in json.loads(read(reader, "/api/v1/audit/entries?q=wrong"))["results"]] == [entry.seq]


@pytest.mark.parametrize(
    "change",
    [
        lambda: Topic.objects.all().delete(),
        # Another of that name: nobody knows what the one before it masked.
        lambda: Topic.objects.update(created_at=timezone.now() + timedelta(seconds=1)),
    ],
)
def test_an_edit_in_a_topic_that_is_gone_is_hidden_whole(
    entry: AuditEntry, reader: Client, change: Callable[[], object]
) -> None:
    Topic.objects.get().subscriptions.all().delete()
    change()
    (found,) = json.loads(read(reader, READERS["list"](entry.seq)))["results"]
    assert (found["before"]["payload"], found["after"]["payload"]) == ("masked · unknown", "masked · unknown")
    assert found["after"]["letter"] == entry.after["letter"]


def test_the_chain_holds_whatever_is_hidden_by_now(entry: AuditEntry, reader: Client) -> None:
    Topic.objects.update(masked_fields=["guest.name"], classification="personal")
    read(reader, READERS["list"](entry.seq))
    assert verify().holds
    entry.refresh_from_db()
    assert "Lindner" in json.dumps([entry.before, entry.after])
