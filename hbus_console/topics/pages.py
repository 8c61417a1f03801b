"""What all pages of a topic share, also those that other features draw among its tabs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from engine.bus.errors import UnknownTopic
from engine.core.errors import NotThere
from hbus_console.access.permissions import allows
from hbus_console.access.web import actor
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.publishing.feature import PUBLISH
from hbus_console.schemas.feature import SCHEMA_EDIT
from hbus_console.subscriptions.feature import SUBSCRIPTION_EDIT
from hbus_console.topics.feature import TOPIC_DELETE, TOPIC_EDIT, TOPIC_GOVERN, TOPIC_PAUSE
from hbus_console.topics.leaving import sent_whole
from hbus_console.topics.lookup import topic as known_topic
from hbus_console.topics.models import Topic
from hbus_console.topics.standing import carrier
from hbus_console.ui.curl import CurlRequest


def found_topic(name: str) -> Topic:
    """The topic of a page's address; a page answers 404 for one that is not there."""
    try:
        return known_topic(name)
    except UnknownTopic as error:
        raise NotThere(error.what, remedy="Look for it in the list of topics.", field="topic") from error


def frame(request: HttpRequest, topic: Topic, tab: str) -> dict[str, Any]:
    """What all tabs of a topic show: its head, its tabs and the acts the actor may do."""
    who, name = actor(request), topic.name
    return {
        "nav": "topics",
        "topic": topic,
        "tab": tab,
        "carrier": carrier(topic),
        "sent_whole": sent_whole(topic),
        "versions": topic.schemas.count(),
        "may_publish": allows(who, PUBLISH, name) and topic.team_id is not None,
        "may_pause": allows(who, TOPIC_PAUSE, name),
        "may_edit": allows(who, TOPIC_EDIT, name),
        "may_govern": allows(who, TOPIC_GOVERN, name),
        "may_delete": allows(who, TOPIC_DELETE, name),
        "may_schema": allows(who, SCHEMA_EDIT, name),
        "may_subscribe": allows(who, SUBSCRIPTION_EDIT, name),
        "may_audit": allows(who, AUDIT_READ, name),
        "pause_curl": CurlRequest(
            "POST",
            f"/api/v1/topics/{name}/{'resume' if topic.paused else 'pause'}",
            {"reason": "why"},
            idempotent=True,
        ),
    }
