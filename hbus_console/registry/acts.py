"""What may be done in this installation."""

from __future__ import annotations

from functools import cache

from hbus_console.access.acts import Act
from hbus_console.registry.loading import features
from hbus_console.registry.names import ACTS


@cache
def acts() -> dict[str, Act]:
    """Every act by its name, as declared. Raises ``ConfigurationError`` for two of one name."""
    return ACTS.by_name(features())
