"""What moves: the subscriptions that consumers run, with what their processes report of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from engine.bus.subjects import subscription_subject
from engine.core.errors import BadInput
from hbus_console.access.permissions import covers
from hbus_console.cluster import probes, services
from hbus_console.nodes.stamps import Node
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll

#: A heartbeat marks its subscriptions at most so often: pages say when it was, to the second.
BEAT_MS = 4_000
#: What changes with the time alone.
_CLOCKS = frozenset({"loop_age_s", "turned_ms", "rate"})


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """What the consumers report of the subscriptions in ``scopes``: one question to the store for all of them."""
    if once_a_poll(probes.obstacle):
        return LiveCells()
    found, _ = once_a_poll(services.living)
    marks: dict[str, list[Hashable]] = defaultdict(list)
    for node in found:
        for topic, group, token in _told(node):
            if any(covers(scope, topic) for scope in scopes):
                try:
                    marks[str(subscription_subject(topic, group))].append(token)
                except BadInput:
                    # A stamp says what it likes; a name that no subscription may have is on no page.
                    continue
    return LiveCells(marks={name: tuple(tokens) for name, tokens in marks.items()})


def _told(node: Node) -> list[tuple[str, str, Hashable]]:
    """Topic, group and token of what ``node`` runs, and of what it might run and does not."""
    stamp = (node.name, node.silent, node.stamp_ms // BEAT_MS)
    lines = [(line, (*stamp, _token(line))) for line in node.detail.get("consumers", ())]
    lines += [(line, (*stamp, _token(line))) for line in node.detail.get("idle", ())]
    return [(str(line.get("topic", "")), str(line.get("group", "")), token) for line, token in lines]


def _token(line: dict[str, object]) -> str:
    return repr(sorted((name, value) for name, value in line.items() if name not in _CLOCKS))
