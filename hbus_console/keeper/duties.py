"""Every duty of an installation, as its features declare them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.duties import Duty
from hbus_console.registry.loading import features, resolve


def all_duties() -> Sequence[Duty]:
    """Made anew with each call, not started. Each runs in one keeper at a time, under the lease of its name."""
    return [resolve(maker)() for feature in features() for maker in feature.duties]
