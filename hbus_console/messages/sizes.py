"""What may be told of how large a message is: where something of it is masked, its size would tell that apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hbus_console.access.permissions import Actor
from hbus_console.messages.models import LedgerMessage
from hbus_console.topics.handler_errors import told_whole_from
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.ui.formats import epoch_ms

#: How a position begins that tells when its store appended the message, in epoch milliseconds.
_STORED = re.compile(r"(\d{1,20})-\d")


def tell_sizes(messages: Iterable[LedgerMessage]) -> None:
    """Have each know the size that may be told of it; none where its topic masks anything, is gone, or was made since:
    what is older lay in another one of its name, which may have masked more."""
    known = list(messages)
    named = Topic.objects.in_bulk({each.topic for each in known}, field_name="name")
    told_from = {
        name: epoch_ms(topic.created_at) for name, topic in named.items() if not MaskingRules.of(topic).hide_something
    }
    for each in known:
        begun = told_from.get(each.topic)
        each.shown_size = each.size if begun is not None and _published_ms(each) >= begun else None


def _published_ms(message: LedgerMessage) -> int:
    """By the store's clock where the position tells it, and never later than its publisher said, whose clock may be
    ahead."""
    stored = _STORED.match(message.position)
    return min(message.published_ms, int(stored[1])) if stored else message.published_ms


def tells_sizes(actor: Actor, name: str, topic: Topic | None, first_ms: int) -> bool:
    """Whether ``actor`` may be told how much what has lain in the topic of that name since ``first_ms`` weighs.

    A sum tells a masked value apart as well as a size does: from packed files, by what a message that repeats a guess
    adds to them.
    """
    told_from = told_whole_from(actor, name, topic)
    return told_from is not None and told_from <= first_ms
