"""What is hidden, and that nothing hidden comes through."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.core.errors import BadInput
from hbus_console.topics.masking import MAX_FIELDS, Masked, check_fields, is_masked, mask

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


@pytest.mark.parametrize("field", ["", "a..b", "a[0]", ".a", "a b", 7, "x" * 201, "a[]b"])
def test_what_is_no_path_is_refused(field: Any) -> None:
    with pytest.raises(BadInput) as refused:
        check_fields([field])
    assert refused.value.field == "masked_fields"


def test_too_many_fields_are_refused() -> None:
    with pytest.raises(BadInput, match="too many"):
        check_fields(f"f{number}" for number in range(MAX_FIELDS + 1))
