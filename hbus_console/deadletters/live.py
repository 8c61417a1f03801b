"""What moves: ``dead`` (``/menu`` as the menu says it, with ``/note``) by itself, and the column ``dead`` of
``topic/NAME``. Its marks are ``letters`` and the subscriptions that have any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from engine.bus.subjects import subscription_subject
from hbus_console.deadletters import counting
from hbus_console.deadletters.counting import by_subscription, in_menu, where
from hbus_console.evidence.freshness import Freshness, dead_letters
from hbus_console.ui.live import LiveCells


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The dead letters that wait for a decision in ``scopes``."""
    return told(by_subscription(scopes), dead_letters(now_ms))


def told(dead: Mapping[tuple[str, str], tuple[int, Hashable]], of: Freshness) -> LiveCells:
    """Counts by (topic, subscription), each with a token of the newest letter, in words."""
    topics: Counter[str] = Counter()
    for (topic, _), (count, _) in dead.items():
        topics[topic] += count
    total = topics.total()
    marks: dict[str, Hashable] = {str(subscription_subject(*key)): token for key, token in dead.items()}
    return LiveCells(
        texts={"dead": counting.told(total, of), "dead/menu": in_menu(total, of), "dead/note": where(topics, of)},
        rows={f"topic/{topic}": {"dead": counting.told(count, of)} for topic, count in topics.items()},
        blank={"topic": {"dead": counting.told(0, of)}},
        stale="" if of.known else f"How many dead letters there are is {of.why}: no keeper takes them over.",
        marks={**marks, "letters": (of.known, *sorted(dead.items(), key=lambda one: one[0]))},
    )
