"""The apps of this installation, known without Django: what it takes to collect their features."""

from __future__ import annotations

from importlib.util import find_spec

from engine.core.env import Env
from engine.core.errors import ConfigurationError

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
    """Ours, and those that HBUS_APPS names. Raises ``ConfigurationError`` for one that is not there."""
    named = Env().words("HBUS_APPS", "examples.hotel")
    for app in named:
        if not _is_there(app):
            raise ConfigurationError(
                f"HBUS_APPS names {app!r}, and there is no such package.",
                remedy="Install it where this Python finds it, or correct the name.",
                field="HBUS_APPS",
            )
    return (*OURS, *named)


def _is_there(app: str) -> bool:
    try:
        return find_spec(app) is not None
    except (ImportError, ValueError):
        return False
