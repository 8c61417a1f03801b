"""Every duty of an installation, as its features declare them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.duties import Duty
from hbus_console.registry.loading import features
from hbus_console.registry.names import DUTIES


def all_duties() -> Sequence[Duty]:
    """Made anew with each call, not started. Each runs in one keeper at a time, under the lease of its name.

    Raises ``ConfigurationError`` for two of one name: they would share a lease, and one of them would never run.
    """
    return list(DUTIES.by_name(features()).values())
