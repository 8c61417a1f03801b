from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
from django.db.models import F
from django.utils import timezone

from engine.core.errors import BadInput, NotThere
from hbus_console.access.permissions import Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.messages import reveal as module
from hbus_console.messages import search, services
from hbus_console.messages.export import message_as_json
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.topics.models import Topic
from hbus_console.topics.topic_page import _latest
from hbus_console.wiring import bus
from tests.hbus_console.messages.conftest import BOOKING, TOPIC, person, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

GOVERNOR = person("governor")
REASON = "guest asks about booking 48213"


@pytest.fixture
def message_id(book: Callable[[], None]) -> str:
    sent = publish()
    book()
    return sent


def test_masked_fields_are_shown_for_a_reason_and_audited(message_id: str) -> None:
    assert services.life(GOVERNOR, message_id).payload.value["guest"] == {"name": "masked · personal"}  # type: ignore[union-attr]
    found = services.reveal(GOVERNOR, message_id, REASON)
    assert found.payload.value == BOOKING
    entry = AuditEntry.objects.get(action="payload.reveal")
    assert (entry.target_type, entry.target, entry.namespace, entry.reason) == ("message", message_id, TOPIC, REASON)
    assert entry.after == {"fields": ["guest.name"], "classification": "personal", "source": found.life.source}
    assert "Ana Lima" not in str(entry.after)
    told = services.timeline(GOVERNOR, message_id)[-1]
    assert told.sentence == f"Revealed by ops-lisbon · guest.name · “{REASON}”"


def test_without_an_audit_entry_nothing_is_shown(message_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no audit")

    monkeypatch.setattr(module, "record", fail)
    with pytest.raises(RuntimeError):
        services.reveal(GOVERNOR, message_id, REASON)


@pytest.mark.parametrize("role", ["viewer", "operator", "editor"])
def test_it_takes_a_governor(message_id: str, role: str) -> None:
    with pytest.raises(Forbidden):
        services.reveal(person(role), message_id, REASON)
    with pytest.raises(NotThere):
        services.reveal(person("governor", "stay.*"), message_id, REASON)
    assert not AuditEntry.objects.filter(action="payload.reveal").exists()


@pytest.mark.parametrize(
    ("reason", "fields", "field"), [("", (), "reason"), (REASON, ("room",), "fields"), (REASON, ("*",), "fields")]
)
def test_a_faulty_request_names_its_field_and_leaves_no_trace(
    message_id: str, reason: str, fields: tuple[str, ...], field: str
) -> None:
    with pytest.raises(BadInput) as refused:
        services.reveal(GOVERNOR, message_id, reason, fields)
    assert refused.value.field == field
    assert not AuditEntry.objects.filter(action="payload.reveal").exists()


def test_where_nothing_is_masked_there_is_nothing_to_reveal(book: Callable[[], None]) -> None:
    sent = publish(topic="stay.completed")
    book()
    with pytest.raises(BadInput, match="Nothing is masked"):
        services.reveal(GOVERNOR, sent, REASON)


def test_a_payload_taken_by_retention_is_said_to_be_gone(message_id: str) -> None:
    for group in ("billing", "partner-sync"):
        bus.admin().delete_group(TOPIC, group)
    bus.admin().trim(TOPIC, older_than_ms=None, keep_at_most=0)
    found = services.life(GOVERNOR, message_id)
    assert found.payload is None
    assert "Retention has removed" in found.gone
    assert services.timeline(GOVERNOR, message_id)[0].before == "Published by"


def test_a_payload_that_was_lost_with_its_store_is_said_to_be_lost(message_id: str) -> None:
    bus.admin().trim(TOPIC, older_than_ms=None, keep_at_most=0)
    LedgerEvent.objects.create(message_id=message_id, kind="lost", topic=TOPIC, subscription="billing", at_ms=1)
    assert services.life(GOVERNOR, message_id).gone.startswith("It was lost with what its store held")


def test_the_payloads_of_a_deleted_topic_are_not_shown(message_id: str) -> None:
    Topic.objects.filter(name=TOPIC).delete()
    found = services.life(GOVERNOR, message_id)
    assert found.payload is None
    assert "deleted" in found.gone


def test_bytes_of_a_guarded_topic_are_hidden_whole(book: Callable[[], None]) -> None:
    sent = shared_producer().publish_raw(TOPIC, b"\x00Ana Lima").message_id
    book()
    payload = services.life(GOVERNOR, sent).payload
    assert payload is not None
    assert payload.hidden == ("*",)
    assert "Ana" not in str(payload.value)
    assert "00 41 6e 61" in services.reveal(GOVERNOR, sent, REASON).payload.value


def test_no_list_tells_the_size_of_what_is_masked(book: Callable[[], None]) -> None:
    """Found by a stranger: a masked yes is a byte longer than a masked no."""
    sent = publish()
    book()
    viewer = person("viewer")
    query = search.Query.read({"topic": TOPIC})

    (row,) = search.search(viewer, query).messages
    assert message_as_json(row)["size"] is None
    entry = services.life(viewer, sent).entry
    assert entry is not None
    assert entry.shown_size is None

    Topic.objects.filter(name=TOPIC).update(masked_fields=[], classification="internal")
    (row,) = search.search(viewer, query).messages
    assert message_as_json(row)["size"] == row.size > 0
    Topic.objects.filter(name=TOPIC).delete()
    assert search.search(viewer, query).messages[0].shown_size is None


@pytest.mark.parametrize("fast_ms", [0, 3_600_000])
def test_what_a_former_topic_of_the_name_held_has_no_size(book: Callable[[], None], fast_ms: int) -> None:
    """However far ahead its publisher's clock was: the store's tells, by the position."""
    sent = publish()
    book()
    LedgerMessage.objects.update(published_ms=F("published_ms") + fast_ms)
    Topic.objects.filter(name=TOPIC).update(masked_fields=[], classification="internal")
    viewer, query = person("viewer"), search.Query.read({"topic": TOPIC})

    def told() -> list[int | None]:
        entry = services.life(viewer, sent).entry
        assert entry is not None
        (found,) = search.search(viewer, query).messages
        (latest,) = _latest(Topic.objects.get(name=TOPIC))
        return [entry.shown_size, found.shown_size, latest.shown_size]

    assert all(told())
    Topic.objects.filter(name=TOPIC).update(created_at=timezone.now() + timedelta(seconds=1))
    assert told() == [None, None, None]


def test_nor_is_it_told_of_the_next_message_of_that_id(book: Callable[[], None]) -> None:
    """The row stays that of the first, time and all: so it is of a former topic still."""
    sent = publish()
    book()
    before = LedgerMessage.objects.get()
    producer = shared_producer()
    producer.send(TOPIC, [msgspec.structs.replace(producer.prepare(TOPIC, {"room": "Q"}), id=sent)])
    book()
    after = LedgerMessage.objects.get()
    assert (after.size, after.published_ms, after.position) == (before.size, before.published_ms, before.position)
