"""What reads topics beside their subscriptions, as features declare it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hbus_console.registry.loading import features
from hbus_console.registry.names import TOPIC_READERS
from hbus_console.registry.reading import TopicReader


@cache
def topic_readers() -> Sequence[TopicReader]:
    """All of them, in the order of their features."""
    return list(TOPIC_READERS.by_name(features()).values())
