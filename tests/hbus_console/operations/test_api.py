"""What the API says of operations, whichever engine's things they work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from engine.core.subject import Subject
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor
from hbus_console.operations import services
from hbus_console.operations.models import Operation
from tests.hbus_console.operations.conftest import Words
from tests.hbus_console.topics.conftest import calling, own_keys

__all__ = ["calling", "own_keys"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
Calling = Callable[..., Callable[..., Any]]


@pytest.fixture
def operation(operator: Actor, words: Words) -> Operation:
    return services.start(operator, "words", {"words": ["a"]}, reason="to be heard").operation


def item(operation: Operation, subject: Subject, became: Subject | None = None, **more: Any) -> None:
    operation.items.create(
        key=str(subject), kind=subject.kind, namespace=subject.namespace, name=subject.name, result="done",
        became=str(became or ""), at=timezone.now(), **more,
    )  # fmt: skip


def test_what_is_made_of_a_message_is_a_message(operation: Operation, calling: Calling) -> None:
    at = Subject("message", "booking.changed", "01A")
    item(operation, at, Subject("message", "booking.changed", "01B"), facets={"subscription": "billing"})
    [told] = calling(Role.OPERATOR)("GET", f"operations/{operation.pk}/items").json()["results"]
    assert (told["subject"], told["became"]) == ("message:booking.changed/01A", "message:booking.changed/01B")
    assert (told["message_id"], told["new_message_id"]) == ("01A", "01B")
    assert (told["topic"], told["subscription"]) == ("booking.changed", "billing")


def test_what_is_made_of_anything_else_is_told_by_its_subject_alone(operation: Operation, calling: Calling) -> None:
    run = Subject("job-run", "hotel.close", "2026-11-22T00:00")
    item(operation, Subject("job", "hotel.close"), run)
    [told] = calling(Role.OPERATOR)("GET", f"operations/{operation.pk}/items").json()["results"]
    assert (told["subject"], told["became"]) == ("job:hotel.close", str(run))
    assert {told[name] for name in ("message_id", "new_message_id", "topic", "subscription")} == {""}


def test_an_operation_names_its_namespace_and_where_it_is_one_its_topic(
    operation: Operation, calling: Calling, words: Words
) -> None:
    call = calling(Role.OPERATOR)

    def told() -> tuple[str, ...]:
        answer = call("GET", f"operations/{operation.pk}").json()
        return answer["subject"], answer["namespace"], answer["topic"]

    subject = f"operation:booking.changed/{operation.pk}"
    assert told() == (subject, "booking.changed", "booking.changed")
    words.works_on = "job"
    assert told() == (subject, "booking.changed", "")
