"""Schema versions through their services, and what publishing then refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.bus.errors import PublishRefused
from engine.core.errors import BadInput
from hbus_console.access.permissions import Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.publishing.producer import shared_producer
from hbus_console.schemas import services as schemas
from hbus_console.schemas.models import SchemaVersion
from hbus_console.schemas.services import parse
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from tests.hbus_console.topics.conftest import EDITOR, GOVERNOR, OPERATOR, VIEWER

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]

FIRST: dict[str, Any] = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
WIDER: dict[str, Any] = {**FIRST, "properties": {**FIRST["properties"], "note": {"type": "string"}}}
NARROWER: dict[str, Any] = {**FIRST, "required": ["id", "note"]}


def test_versions_count_up_and_are_told(topic: Topic) -> None:
    assert schemas.add_schema(EDITOR, topic.name, FIRST, "first").version == 1
    assert schemas.add_schema(EDITOR, topic.name, WIDER).version == 2
    row = SchemaVersion.objects.get(version=1)
    assert (row.created_by, row.note, row.body) == ("a-editor", "first", FIRST)
    assert list(AuditEntry.objects.filter(action="schema.add").values_list("after", flat=True)) == [
        {"schema_version": 2},
        {"schema_version": 1},
    ]
    assert Topic.objects.get().revision == 3


def test_the_same_body_again_adds_nothing(topic: Topic, told: Callable[[], list[str]]) -> None:
    schemas.add_schema(EDITOR, topic.name, FIRST)
    assert schemas.add_schema(EDITOR, topic.name, FIRST).version == 1
    assert told() == ["schema.add"]


def test_a_breaking_version_is_refused_in_plain_words(topic: Topic) -> None:
    schemas.add_schema(EDITOR, topic.name, FIRST)
    with pytest.raises(BadInput, match="note is required, but old messages may lack it") as refused:
        schemas.add_schema(EDITOR, topic.name, NARROWER)
    assert refused.value.field == "body"
    topics.change_topic(GOVERNOR, topic.name, {"compatibility": "none"}, "agreed with all readers")
    assert schemas.add_schema(EDITOR, topic.name, NARROWER).version == 2


def test_whether_a_schema_would_be_accepted_can_be_asked_without_trace(
    topic: Topic, told: Callable[[], list[str]]
) -> None:
    assert schemas.would_accept(VIEWER, topic.name, FIRST).version == 1
    schemas.add_schema(EDITOR, topic.name, FIRST)
    verdict = schemas.would_accept(VIEWER, topic.name, NARROWER)
    assert (verdict.accepted, verdict.version, verdict.mode, len(verdict.breaks)) == (False, 2, "backward", 1)
    assert schemas.would_accept(VIEWER, topic.name, WIDER).accepted
    assert schemas.would_accept(VIEWER, topic.name, FIRST).unchanged
    assert told() == ["schema.add"]


def test_adding_takes_an_editor(topic: Topic) -> None:
    with pytest.raises(Forbidden):
        schemas.add_schema(OPERATOR, topic.name, FIRST)


def test_publishing_is_checked_against_the_latest_version_at_once(topic: Topic) -> None:
    producer = shared_producer()
    assert producer.publish(topic.name, {"anything": 1}).position
    schemas.add_schema(EDITOR, topic.name, FIRST)
    with pytest.raises(PublishRefused, match="id is required") as refused:
        producer.publish(topic.name, {"anything": 1})
    assert refused.value.field == "payload.id"
    assert producer.prepare(topic.name, {"id": 1}).dataschema == "urn:hbus:schema:booking.created:1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1"),
        ('{\n "a": }', "line 2"),
        ("[" * 100_000, "deep"),
        ('{"maximum": ' + "9" * 5_000 + "}", "out of range"),
        ('{"maximum": NaN}', "NaN"),
        ('{"title": "\\ud800"}', "surrogate|truncated|utf-16"),
    ],
)
def test_text_that_is_no_json_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        parse(text)
    assert refused.value.field == "body"
