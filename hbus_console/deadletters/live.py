"""What moves: ``dead`` (``/menu`` as the menu says it, with ``/note``) by itself, and the column ``dead`` of
``topic/NAME``. Its marks are ``letters`` and the subscriptions that have any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from engine.bus.subjects import subscription_subject
from hbus_console.deadletters.counting import by_subscription, tally, where
from hbus_console.ui import formats
from hbus_console.ui.live import LiveCells


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The dead letters that wait for a decision in ``scopes``."""
    return told(by_subscription(scopes))


def told(dead: Mapping[tuple[str, str], tuple[int, Hashable]]) -> LiveCells:
    """Counts by (topic, subscription), each with a token of the newest letter, in words."""
    topics: Counter[str] = Counter()
    for (topic, _), (count, _) in dead.items():
        topics[topic] += count
    total = topics.total()
    marks: dict[str, Hashable] = {str(subscription_subject(*key)): token for key, token in dead.items()}
    return LiveCells(
        texts={"dead": formats.num(total), "dead/menu": tally(total), "dead/note": where(topics)},
        rows={f"topic/{topic}": {"dead": formats.num(count)} for topic, count in topics.items()},
        blank={"topic": {"dead": formats.num(0)}},
        marks={**marks, "letters": tuple(sorted(dead.items(), key=lambda one: one[0]))},
    )
