"""What is hidden, and that nothing hidden comes through."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.bus.filters import compile_filter
from engine.core.errors import BadInput
from hbus_console.messages.browsing import Condition
from hbus_console.topics.masking import MAX_FIELDS, Masked, check_fields, is_masked, mask, masked
from hbus_console.topics.payloads import MaskingRules, may_search
from hbus_console.topics.services.draft import SETTINGS

HIDDEN = "masked · personal"


@pytest.mark.parametrize(
    ("fields", "payload", "shown"),
    [
        (["guest"], {"guest": {"name": "A"}, "n": 1}, {"guest": HIDDEN, "n": 1}),
        (["guest.name"], {"guest": {"name": "A", "n": 1}}, {"guest": {"name": HIDDEN, "n": 1}}),
        (["guests[].name"], {"guests": [{"name": "A"}, {"n": 1}]}, {"guests": [{"name": HIDDEN}, {"n": 1}]}),
        (["guests.name"], {"guests": [{"name": "A"}]}, {"guests": [{"name": HIDDEN}]}),
        (["rows[][].x"], {"rows": [[{"x": 1}], [{"x": 2}]]}, {"rows": [[{"x": HIDDEN}], [{"x": HIDDEN}]]}),
        (["guests"], {"guests": ["A", "B"]}, {"guests": HIDDEN}),
        (["guest"], {"guest": None}, {"guest": HIDDEN}),
        (["guest"], {"n": 1}, {"n": 1}),
        (["guest.name"], {"guest": "A"}, {"guest": "A"}),
        (["name"], [{"name": "A"}], [{"name": HIDDEN}]),
        ([], {"guest": "A"}, {"guest": "A"}),
        (["a"], "plain", "plain"),
    ],
)
def test_masking(fields: list[str], payload: Any, shown: Any) -> None:
    before = json.dumps(payload)
    assert mask(payload, fields) == shown
    assert json.dumps(payload) == before


def test_a_masked_value_is_text_on_the_wire_and_can_be_told_apart() -> None:
    shown = mask({"a": 1}, ["a"], "confidential")
    assert isinstance(shown["a"], Masked)
    assert json.dumps(shown, ensure_ascii=False) == '{"a": "masked · confidential"}'


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("guest", True),
        ("guest.name", True),
        ("guest.name.first", True),
        ("guests[3].name", False),
        ("list[3].name", True),
        ("list[].age", False),
        ("guestbook", False),
    ],
)
def test_what_may_not_be_searched(path: str, hidden: bool) -> None:
    assert is_masked(path, ["guest.name", "list[].name"]) is hidden


def test_fields_are_sorted_and_without_repeats() -> None:
    assert check_fields([" b.c ", "a[]", "b.c"]) == ["a[]", "b.c"]
    assert check_fields(["'first name'", '"first name"', '"b".c', '"stra\\u00dfe"[]']) == [
        '"first name"', '"straße"[]', "b.c"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["straße", "naïve", "first name", 'a"b', "a.b", "*", "a,b", "a\nb", "", "日本", "[]", "'"]
)
def test_a_field_of_any_name_is_masked_and_no_filter_or_search_asks_for_it(name: str) -> None:
    (field,) = check_fields([json.dumps(name)])
    assert check_fields([field]) == [field]
    payload = {name: "x", "a": {"b": "y"}, "list": [{name: "z"}]}
    assert mask(payload, [field], "personal") == {**payload, name: masked("personal")}
    (deeper,) = check_fields([f"list[].{json.dumps(name)}"])
    assert mask(payload, [deeper])["list"] == [{name: masked("personal")}]
    rules = MaskingRules((field,), "personal", opaque_hidden=True)
    said = json.dumps(name)
    for text in (f'payload.{said} == "x"', f"exists(payload.{said})", f'payload.{said}.more == "x"'):
        (asked,) = compile_filter(text).payload_fields
        assert is_masked(asked, [field]), text
    assert not may_search(Condition.read(f"{said}=x").path, rules)
    assert not is_masked(compile_filter("payload.a.b == 1").payload_fields[0], [field])


def test_a_form_takes_names_in_quotes() -> None:
    typed = {"masked_fields": 'guest.name, "first name"\r\nguest.\'a, b\'  "straße"[]'}
    found = SETTINGS.typed(typed, ["masked_fields"])["masked_fields"]
    assert check_fields(found) == ['"first name"', '"straße"[]', 'guest."a, b"', "guest.name"]


@pytest.mark.parametrize(
    "field",
    [
        "",
        "a..b",
        "a[0]",
        ".a",
        "a b",
        7,
        "x" * 201,
        "a[]b",
        "straße",
        '"a',
        '"a"b',
        '"\\x"',
        '"\\ud800"',
        '"a"[1]',
        "*",
    ],
)
def test_what_is_no_path_is_refused(field: Any) -> None:
    with pytest.raises(BadInput) as refused:
        check_fields([field])
    assert refused.value.field == "masked_fields"


def test_too_many_fields_are_refused() -> None:
    with pytest.raises(BadInput, match="too many"):
        check_fields(f"f{number}" for number in range(MAX_FIELDS + 1))
