"""A change that was overtaken says by whom and in what."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.errors import Outdated
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor
from hbus_console.audit.meanwhile import require_current
from hbus_console.audit.services import record
from tests.hbus_console.audit.conftest import ANNA

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

TOPIC = Subject("topic", "booking.created")


def changed(actor: Actor, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
    record(actor, "topic.change", TOPIC, before=before, after=after)


def overtaken(given: int, current: int) -> str:
    with pytest.raises(Outdated) as refused:
        require_current(given, current, "booking.created", TOPIC)
    assert refused.value.remedy == "Look at it as it is now, and change that."
    return refused.value.what


def test_it_names_who_set_which_fields_since_and_nobody_before() -> None:
    changed(ANNA, {"owner": "a"}, {"owner": "b"})
    changed(Actor(name="bob"), {"max_bytes": 1, "retention_hours": 2}, {"max_bytes": 9, "retention_hours": 2})
    said = overtaken(2, 3)
    assert said.startswith("booking.created was changed by somebody else meanwhile. bob set max_bytes, last on ")
    assert "bob and anna set max_bytes and owner, last on " in overtaken(1, 3)


def test_of_many_fields_it_names_some() -> None:
    before = {f"field_{number}": 0 for number in range(8)}
    changed(ANNA, before, dict.fromkeys(before, 1))
    assert "anna set field_0, field_1, field_2, field_3 and 4 more, last on " in overtaken(1, 2)


def test_where_the_log_knows_nothing_it_says_no_more_than_before() -> None:
    changed(ANNA, None, {"owner": "a"})
    changed(ANNA, {"owner": "a"}, {"owner": "a"})
    assert overtaken(1, 2) == "booking.created was changed by somebody else meanwhile."
    require_current(None, 2, "booking.created", TOPIC)
    require_current(2, 2, "booking.created", TOPIC)
