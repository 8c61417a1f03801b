"""What the endpoints of topics take."""

from __future__ import annotations

from hbus_console.api.drafts import change_body, new_body
from hbus_console.topics.services.draft import SETTINGS

NewTopic = new_body(SETTINGS, "NewTopic", "A topic; ``owner`` names a team.")
TopicChange = change_body(
    SETTINGS,
    "TopicChange",
    "What to change of a topic; an empty ``owner`` takes it away. ``revision`` guards against a change meanwhile.",
)
