"""The AsyncAPI 3 document keeps the structure the specification asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from engine.bus.message import KNOWN_ATTRIBUTES
from hbus_console.access.permissions import SYSTEM
from hbus_console.schemas.json_schema import CompiledSchema
from hbus_console.schemas.sample import sample
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics import asyncapi
from hbus_console.topics import services as topics
from hbus_console.topics.asyncapi import document
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]

SCHEMA = {
    "type": "object",
    "required": ["guest"],
    "properties": {"guest": {"$ref": "#/$defs/person"}, "next": {"$ref": "#"}, "kind": {"const": {"$ref": "#/x"}}},
    "$defs": {"person": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
}


@pytest.fixture
def made(topic: Topic) -> dict[str, Any]:
    topics.create_topic(SYSTEM, TopicDraft(name="stay.completed", owner="Reservations", schema=SCHEMA))
    subscriptions.create_subscription(
        SYSTEM, SubscriptionDraft("stay.completed", "billing", "Reservations", "Invoices.")
    )
    rows = Topic.objects.select_related("team").prefetch_related("schemas", "subscriptions__team")
    return document(rows, host="bus.example:8000", protocol="https")


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, inner in node.items():
            if name == "$ref" and isinstance(inner, str):
                yield inner
            elif name != "const":
                yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def follow(root: Any, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        root = root[step]
    return root


def test_its_parts_are_those_of_the_specification(made: dict[str, Any]) -> None:
    assert made["asyncapi"] == "3.0.0"
    assert set(made["info"]) >= {"title", "version"}
    assert isinstance(made["info"]["version"], str)
    assert made["servers"]["http"] == {"host": "bus.example:8000", "protocol": "https", "pathname": "/api/v1"}
    for kind in made["components"].values():
        assert all(re.fullmatch(r"[a-zA-Z0-9.\-_]+", key) for key in kind)
    for channel in made["channels"].values():
        assert set(channel) - {"address", "description", "messages"} == {
            name for name in channel if name.startswith("x-")
        }
    json.dumps(made)


def test_the_attributes_are_those_of_the_envelope(made: dict[str, Any]) -> None:
    envelope = made["components"]["schemas"]["cloudevent"]
    assert set(envelope["properties"]) == KNOWN_ATTRIBUTES - {"data", "data_base64"}
    assert envelope["required"] == ["specversion", "id", "source", "type"]
    assert set(asyncapi._TOLD) <= set(envelope["properties"]), "nothing is told of what is not there"
    assert envelope["properties"]["hbustarget"]["type"] == "string"


def test_every_reference_leads_somewhere(made: dict[str, Any]) -> None:
    found = list(references(made))
    assert len(found) > 10
    for reference in found:
        assert follow(made, reference) is not None


def test_operations_stand_on_their_channels_and_carry_their_messages(made: dict[str, Any]) -> None:
    assert set(made["operations"]) == {
        "publish.booking.created",
        "publish.stay.completed",
        "receive.stay.completed.billing",
    }
    for operation in made["operations"].values():
        assert operation["action"] in ("send", "receive")
        channel = follow(made, operation["channel"]["$ref"])
        for message in operation["messages"]:
            assert message["$ref"].startswith(operation["channel"]["$ref"] + "/messages/")
            assert follow(made, message["$ref"]) in channel["messages"].values()
    reader = made["operations"]["receive.stay.completed.billing"]
    assert (reader["x-group"], reader["x-owner"]["team"]) == ("billing", "Reservations")


def test_owners_rules_and_schemas_are_there(made: dict[str, Any]) -> None:
    channel = made["channels"]["stay.completed"]
    assert channel["x-owner"] == {"team": "Reservations", "contact": "#reservations"}
    assert channel["x-retention-hours"] == 168
    message = made["components"]["messages"]["stay.completed"]
    assert message["x-dataschema"] == "urn:hbus:schema:stay.completed:1"
    payload = follow(made, message["payload"]["$ref"])
    assert payload["schemaFormat"] == "application/schema+json;version=draft-2020-12"
    assert payload["schema"]["properties"]["kind"]["const"] == {"$ref": "#/x"}
    assert "payload" not in made["components"]["messages"]["booking.created"]
    headers = follow(made, message["headers"]["$ref"])
    assert headers["required"] == ["specversion", "id", "source", "type"]


def test_a_document_without_a_host_has_no_servers(db: None) -> None:
    assert "servers" not in document([])


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        SCHEMA | {"properties": {"guest": {"$ref": "#/$defs/person"}, "next": {"$ref": "#"}}},
        {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 7, "multipleOf": 5}}},
        {"type": "array", "minItems": 2, "items": {"enum": ["a", "b"]}},
        {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        {"type": ["null", "string"], "minLength": 9},
        {"allOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}], "required": ["b"],
         "properties": {"b": {"type": "boolean"}}},
        {"type": "string", "maxLength": 2},
        {"type": "number", "exclusiveMinimum": 3},
        {"type": "number", "maximum": -1},
        *[{"type": "string", "format": name} for name in ("date-time", "time", "email", "uuid", "uri", "duration")],
    ],
)  # fmt: skip
def test_a_sample_is_valid_under_its_schema(schema: Any) -> None:
    made = sample(schema)
    assert CompiledSchema(schema).problem(made) is None, made
