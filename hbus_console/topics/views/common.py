"""What the pages of topics share."""

from __future__ import annotations

from engine.bus.errors import UnknownTopic
from engine.core.errors import NotThere
from hbus_console.topics.models import Topic
from hbus_console.topics.services import topic


def found_topic(name: str) -> Topic:
    """The topic of a page's address; a page answers 404 for one that is not there."""
    try:
        return topic(name)
    except UnknownTopic as error:
        raise NotThere(error.what, remedy="Look for it in the list of topics.", field="topic") from error
