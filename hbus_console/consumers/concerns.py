"""What of the processes that host subscriptions needs a person: one that hosts too many."""

from __future__ import annotations

from django.urls import reverse

from hbus_console.cluster.concerns import nodes
from hbus_console.consumers.host import HELD_MOST
from hbus_console.ui.concern import Concern, Look, at, spell


def concerns(look: Look) -> list[Concern]:
    """By the word of those that are alive; how many there are is not for everybody who may read this."""
    crowded = sorted(
        node.name for node in look.once(nodes) if not node.silent and len(node.detail.get("consumers", ())) > HELD_MOST
    )
    page = reverse("cluster:overview")
    return at(
        155,
        spell(
            crowded,
            lambda name: Concern(
                "warn",
                f"{name} hosts more subscriptions than one process holds well",
                f"more than {HELD_MOST}: divide the topics among consumers by HBUS_CONSUME_TOPICS",
                page,
                "Open cluster",
            ),
            Concern("warn", "Further consumers host more than they hold well", "", page, "Open cluster"),
        ),
    )
