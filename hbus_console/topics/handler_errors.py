"""What may be told of a handler's error: it may quote what its topic masks, and whatever it quotes cannot be told apart
from that."""

from __future__ import annotations

import re

from engine.bus.causes import cause_of_text
from engine.bus.dead import QUOTED
from hbus_console.access.permissions import Actor, allows
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.ui.formats import epoch_ms

#: Where a quotation begins that the end of the text, or of its first line, cuts off.
_OPEN = re.compile(r"(?:(?<!\w)'|[\"`]).*", re.DOTALL)


def told_whole_from(actor: Actor, name: str, topic: Topic | None) -> int | None:
    """From when on ``actor`` may be told all that was in the topic of that name, epoch milliseconds; 0: whenever,
    ``None``: never, for something of it is masked.

    What is older than the topic lay in another one of its name, which may have masked more.
    """
    if allows(actor, PAYLOAD_REVEAL, name):
        return 0
    return None if topic is None or MaskingRules.of(topic).hide_something else epoch_ms(topic.created_at)


def told_error(error: str, at_ms: int, told_from: int | None) -> str:
    """What is told of an ``error`` of that moment: itself, or its cause alone, which leaves out whatever it quotes and
    counts. ``told_from``: see :func:`told_whole_from`."""
    if told_from is not None and at_ms >= told_from:
        return error
    return _OPEN.sub(QUOTED, cause_of_text(error)) if error else ""
