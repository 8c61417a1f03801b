"""The apps of this installation, known without Django: what it takes to collect their features."""

from __future__ import annotations

from engine.core.env import Env

#: The ground first, then the features, then the front.
OURS = (
    "hbus_console.accounts",
    "hbus_console.audit",
    "hbus_console.teams",
    "hbus_console.evidence",
    "hbus_console.outbox",
    "hbus_console.operations",
    "hbus_console.alerts",
    "hbus_console.cluster",
    "hbus_console.keeper",
    "hbus_console.supervisor",
    "hbus_console.api",
    "hbus_console.ui",
    "hbus_console.topics",
    "hbus_console.schemas",
    "hbus_console.subscriptions",
    "hbus_console.consumers",
    "hbus_console.publishing",
    "hbus_console.messages",
    "hbus_console.traffic",
    "hbus_console.deadletters",
    "hbus_console.replays",
    "hbus_console.imports",
    "hbus_console.overview",
)


def apps() -> tuple[str, ...]:
    """Ours, and those that HBUS_APPS names."""
    return (*OURS, *Env().words("HBUS_APPS", "examples.hotel"))
