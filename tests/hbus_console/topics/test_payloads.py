"""What a payload shows under the rules of its topic."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.bus.message import Message
from hbus_console.topics.payloads import MaskingRules, shown, shown_body

PERSONAL = MaskingRules(("guest.name",), "personal", opaque_hidden=True)
CONFIDENTIAL = MaskingRules((), "confidential", opaque_hidden=True)
OPEN = MaskingRules((), "internal", opaque_hidden=False)


def message(payload: Any) -> Message:
    return Message(id="1", source="/s", type="t", data=msgspec.Raw(msgspec.json.encode(payload)))


@pytest.mark.parametrize(
    ("rules", "payload"),
    [
        (CONFIDENTIAL, "text"),
        (CONFIDENTIAL, 7),
        (CONFIDENTIAL, None),
        (CONFIDENTIAL, ["text"]),
        (CONFIDENTIAL, [[{"a": 1}, ["text"]]]),
        (PERSONAL, "text"),
        (PERSONAL, [["text"]]),
        (PERSONAL, {"guest": '{"name": "Ann"}'}),
        (PERSONAL, {"guest": 7, "room": 1}),
        (PERSONAL, {"guest": [{"name": "Ann"}, "Ann"]}),
    ],
)
def test_json_without_the_fields_that_tell_what_to_hide_is_hidden_whole(rules: MaskingRules, payload: Any) -> None:
    told = shown(message(payload), rules)
    assert (told.value, told.hidden) == (f"masked · {rules.classification}", ("*",))
    assert shown(message(payload), rules, ["*"]).value == payload
    assert shown(message(payload), OPEN).value == payload


@pytest.mark.parametrize(
    ("rules", "payload", "value"),
    [
        (CONFIDENTIAL, {"guest": "Ann"}, {"guest": "Ann"}),
        (CONFIDENTIAL, [], []),
        (CONFIDENTIAL, [{"guest": "Ann"}], [{"guest": "Ann"}]),
        (PERSONAL, {"room": 1}, {"room": 1}),
        (PERSONAL, {"guest": None}, {"guest": None}),
        (PERSONAL, {"guest": {"name": "Ann", "n": 1}}, {"guest": {"name": "masked · personal", "n": 1}}),
    ],
)
def test_fields_are_told_apart_where_there_are_any(rules: MaskingRules, payload: Any, value: Any) -> None:
    assert shown(message(payload), rules).value == value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"guest": {"name": "Ann"}, "room": 1}, {"guest": {"name": "Alexandra"}, "room": 1}),
        ("yes", "no"),
        ({"guest": True}, {"guest": False}),
    ],
)
def test_the_size_does_not_tell_apart_what_is_hidden(one: Any, other: Any) -> None:
    rules = MaskingRules(("guest",), "personal", opaque_hidden=True)
    assert shown(message(one), rules) == shown(message(other), rules)
    assert shown(message(one), rules).size is None
    assert shown(message({"room": 1}), rules).size == len('{"room":1}')
    assert shown(message(one), rules, revealed=("*",)).size is not None


def test_a_value_that_is_the_text_of_its_stand_in_is_hidden_like_any_other() -> None:
    rules = MaskingRules(("ssn", "none"), "personal", opaque_hidden=True)
    same, other = shown(message({"ssn": "masked · personal"}), rules), shown(message({"ssn": "7"}), rules)
    assert same == other
    assert (same.size, same.hidden) == (None, ("ssn",))


@pytest.mark.parametrize("rules", [PERSONAL, OPEN])
def test_json_of_millions_of_values_is_its_text_or_hidden_whole(rules: MaskingRules) -> None:
    body = b'{"guest":{"name":"anna"},"more":[' + b"[]," * 400_000 + b"1]}"
    found = shown_body(body, rules)
    if rules.opaque_hidden:
        assert (found.form, found.hidden, "anna" in found.value) == ("text", ("*",), False)
    else:
        assert (found.form, found.value, found.size) == ("text", body.decode(), len(body))
