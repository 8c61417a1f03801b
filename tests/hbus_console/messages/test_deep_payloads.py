"""A payload that lies there from before the limit of nesting: shown or hidden whole, and nothing breaks over it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from engine.bus.message import Message, encode
from engine.bus.transport import Outgoing
from engine.core.errors import BadInput
from hbus_console.deadletters import editing
from hbus_console.messages.browsing import Condition, peek, scan
from hbus_console.messages.export import envelope_as_json
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules, shown
from hbus_console.wiring import bus
from tests.hbus_console.deadletters.conftest import MakeLetter, facts, make_letter, subscription
from tests.hbus_console.messages.conftest import TOPIC, person, publish
from tests.hbus_console.messages.test_api import Call, call

__all__ = ["call", "facts", "make_letter", "subscription"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

SECRET = "Ana Lima"
DEEP = b'{"guest":' + b"[" * 900 + b'{"name":"Ana Lima"}' + b"]" * 900 + b"}"
MESSAGE = Message(id="deep", source="/s", type="t", data=msgspec.Raw(DEEP))


@pytest.mark.parametrize(
    ("rules", "revealed", "visible"),
    [
        (MaskingRules(("guest.name",), "internal", opaque_hidden=True), (), False),
        (MaskingRules(("guest.name",), "internal", opaque_hidden=True), ("guest.name",), False),
        (MaskingRules(("guest.name",), "internal", opaque_hidden=True), ("*",), True),
        (MaskingRules(("*",), "unknown", opaque_hidden=True), (), False),
        (MaskingRules((), "internal", opaque_hidden=False), (), True),
    ],
)
def test_it_is_shown_whole_or_hidden_whole(rules: MaskingRules, revealed: tuple[str, ...], visible: bool) -> None:
    payload = shown(MESSAGE, rules, revealed)
    assert (SECRET in str(payload.value)) is visible
    assert payload.hidden == (() if visible else ("*",))
    assert envelope_as_json(MESSAGE)["id"] == "deep"
    json.dumps(payload.value)


@pytest.mark.usefixtures("installation")
def test_the_log_shows_it_masked_and_goes_on(call: Call) -> None:
    publish()
    bus.transport().publish(TOPIC, [Outgoing("deep", encode(MESSAGE))])
    entries = peek(person("viewer"), TOPIC).entries
    assert [seen.payload.hidden for seen in entries] == [("*",), ("guest.name",)]
    assert SECRET not in str(entries)
    assert len(scan(person("viewer"), TOPIC, Condition.read("room.code=DBL-SEA")).entries) == 1


@pytest.mark.usefixtures("facts")
def test_dead_letters_are_listed_with_one_among_them(call: Call, make_letter: MakeLetter) -> None:
    letter = make_letter(message={"data": msgspec.Raw(DEEP)})
    Topic.objects.update(masked_fields=["guest.name"])
    status, found = call("GET", "dead-letters")
    assert (status, found["results"][0]["masked"]) == (200, ["*"])
    status, one = call("GET", f"dead-letters/{letter.pk}")
    assert (status, one["masked"]) == (200, ["*"])
    assert SECRET not in json.dumps([found, one])
    assert editing.draft(letter).obstacle


@pytest.mark.usefixtures("facts")
def test_no_edit_makes_one(make_letter: MakeLetter) -> None:
    letter, given = make_letter(), nested(101)
    with pytest.raises(BadInput, match="deeper than 100 levels"):
        editing.merged(person("admin"), letter, MESSAGE, given)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value
