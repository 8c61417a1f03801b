from __future__ import annotations

import pytest

from engine.core.subject import Subject
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import stored
from hbus_console.audit.telling import Told, tell
from hbus_console.registry.subjects import kinds


def told(subject: Subject, action: str = "thing.change") -> Told:
    columns = stored(subject)
    return tell(
        AuditEntry(
            action=action,
            actor="anna",
            actor_kind="user",
            target_type=columns.target_type,
            target=columns.target,
            namespace=columns.namespace,
        )
    )


@pytest.mark.parametrize(
    ("subject", "url", "word"),
    [
        (Subject("topic", "booking.created"), "/topics/booking.created/", "namespace"),
        (Subject("subscription", "booking.created", "billing"), "/subscriptions/booking.created/billing/", "topic"),
        (Subject("message", "booking.created", "01M7"), "/messages/01M7?topic=booking.created", "topic"),
        (Subject("dead-letter", "booking.created", "7"), "/dead-letters/", "topic"),
        (Subject("user", "", "bob"), "/access/users/bob/", "namespace"),
        (Subject("operation", "booking.created", "12"), "/operations/12/", "namespace"),
        (Subject("operation", "", "none"), "", "namespace"),
        (Subject("alert", "booking.created", "3"), "/alerts/3/", "namespace"),
        (Subject("alert-rule", "", "Many dead"), "/alerts/rules/", "namespace"),
        (Subject("unheard-of", "a.b", "c"), "", "namespace"),
    ],
)
def test_an_entry_leads_to_what_it_is_about(subject: Subject, url: str, word: str) -> None:
    found = told(subject)
    assert (found.url, found.namespace_word) == (url, word)


def test_every_declared_kind_has_an_address_that_can_be_asked() -> None:
    for name in kinds():
        assert isinstance(told(Subject(name, "a.b", "c")).url, str)


def test_what_the_features_say_of_an_action_goes_before_what_its_name_says() -> None:
    assert told(Subject("topic", "a.b"), "topic.pause").did == "paused"
    assert (
        told(Subject("subscription", "a.b", "g"), "subscription.declare").did == "took over from code the subscription"
    )
    assert told(Subject("job", "close-of-day"), "job.start").did == "started the job"
