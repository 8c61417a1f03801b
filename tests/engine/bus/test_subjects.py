from __future__ import annotations

import pytest

from engine.bus.subjects import message_subject, subject_of, subscription_subject, topic_subject
from engine.core.errors import BadInput


def test_a_topic_is_the_entry_of_its_namespace() -> None:
    assert str(topic_subject("booking.created")) == "topic:booking.created"


def test_a_subscription_lies_in_the_namespace_of_its_topic() -> None:
    subject = subscription_subject("booking.created", "billing")
    assert str(subject) == "subscription:booking.created/billing"
    assert subject.namespace == "booking.created"


def test_a_name_that_would_be_read_as_two_is_refused() -> None:
    with pytest.raises(BadInput, match="no namespace"):
        topic_subject("booking/created")


def test_a_message_lies_in_the_namespace_of_its_topic() -> None:
    assert str(message_subject("booking.created", "0192-4c")) == "message:booking.created/0192-4c"


def test_what_has_no_group_is_about_its_topic() -> None:
    assert subject_of("booking.created", "billing") == subscription_subject("booking.created", "billing")
    assert subject_of("booking.created", "") == topic_subject("booking.created")
