"""Rows that name a topic, a subscription or a message say it as a subject."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import models

from engine.bus.subjects import message_subject, subscription_subject, topic_subject
from engine.core.subject import Subject
from hbus_console.alerts.models import Channel, Rule
from hbus_console.deadletters.limit import Full
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.models import Notice
from hbus_console.imports.models import ImportRun
from hbus_console.messages.models import FlowRollup, FlowSample, LagSample, LedgerEvent, LedgerMessage
from hbus_console.outbox.models import InboxEntry, OutboxMessage
from hbus_console.pipelines.models import ArchivedTopic
from hbus_console.schemas.models import SchemaVersion
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams.models import Team
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.traffic.flow import LagNow

TOPIC, GROUP, ID = "booking.created", "billing", "0192-4c"
IN_GROUP, OF_TOPIC = f"subscription:{TOPIC}/{GROUP}", f"topic:{TOPIC}"
#: A version goes by its topic and its number; nothing speaks of an entry of the inbox.
WITHOUT = {SchemaVersion, InboxEntry}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (LedgerMessage(topic=TOPIC, message_id=ID), f"message:{TOPIC}/{ID}"),
        (LedgerEvent(topic=TOPIC, subscription=GROUP, message_id=ID), IN_GROUP),
        (LedgerEvent(topic=TOPIC, subscription="", message_id=ID), OF_TOPIC),
        (FlowSample(topic=TOPIC, subscription=GROUP), IN_GROUP),
        (FlowRollup(topic=TOPIC), OF_TOPIC),
        (LagSample(topic=TOPIC, subscription=GROUP), IN_GROUP),
        (LagNow(TOPIC, GROUP, 0, 0, 0, 0, None), IN_GROUP),
        (Notice(topic=TOPIC, subscription=GROUP), IN_GROUP),
        (Notice(topic=TOPIC), OF_TOPIC),
        (DeadLetter(topic=TOPIC, subscription=GROUP, message_id=ID), f"message:{TOPIC}/{ID}"),
        (DeadLetter(topic=TOPIC, message_id="@17\n"), f"message:{TOPIC}/@17?"),
        (Full(TOPIC, GROUP, 3), IN_GROUP),
        (OutboxMessage(topic=TOPIC, message_id=ID), f"message:{TOPIC}/{ID}"),
        (ImportRun(topic=TOPIC), OF_TOPIC),
        (Topic(name=TOPIC), OF_TOPIC),
        (Subscription(topic=Topic(name=TOPIC), group=GROUP), IN_GROUP),
        (StoreRemoval(topic=TOPIC), OF_TOPIC),
        (ArchivedTopic(topic=Topic(name=TOPIC)), OF_TOPIC),
        (StoreRemoval(topic=TOPIC, group=GROUP), IN_GROUP),
        (Team(name="Front desk"), "team:/Front desk"),
        (Channel(name="on-call"), "alert-channel:/on-call"),
        (Rule(name="Lag", scope="*"), "alert-rule:/Lag"),
        (Rule(name="Lag", scope="booking.*"), "alert-rule:booking/Lag"),
    ],
)
def test_a_row_says_what_it_is_about(row: Any, text: str) -> None:
    assert row.subject == Subject.parse(text)
    assert str(row.subject) == text


def test_what_concerns_the_installation_as_such_is_about_nothing() -> None:
    assert Notice(kind="facts_dropped").subject is None


def test_the_copy_of_a_letter_is_a_message_of_its_topic() -> None:
    assert DeadLetter(topic=TOPIC, redriven_as=ID).copy == Subject("message", TOPIC, ID)
    assert DeadLetter(topic=TOPIC).copy is None


def test_every_row_that_names_a_topic_or_a_namespace_has_a_subject() -> None:
    naming: set[type[models.Model]] = {
        model
        for model in apps.get_models()
        if {"topic", "subscription", "namespace"} & {field.name for field in model._meta.get_fields()}
        if model.__module__.startswith("hbus_console.")
    }
    assert {model for model in naming if not hasattr(model, "subject")} == WITHOUT


def test_rows_and_engine_mean_the_same() -> None:
    assert Topic(name=TOPIC).subject == topic_subject(TOPIC)
    assert Subscription(topic=Topic(name=TOPIC), group=GROUP).subject == subscription_subject(TOPIC, GROUP)
    assert LedgerMessage(topic=TOPIC, message_id=ID).subject == message_subject(TOPIC, ID)
