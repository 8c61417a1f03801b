"""The one way in which things that features bring are told apart: by a name that no two of them share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from engine.core.errors import ConfigurationError

_T = TypeVar("_T")


def unique(of: str, brought: Iterable[tuple[str, str, _T]]) -> dict[str, _T]:
    """``brought`` by name and in its order: of each thing who brings it, its name, and itself.

    ``of`` is what one of them is called, with its article: ``an act``. Raises ``ConfigurationError`` for a name that
    comes twice, and says who bring it: silently, one of the two would take the other's place.
    """
    found: dict[str, _T] = {}
    bringer: dict[str, str] = {}
    for who, name, thing in brought:
        if name in found:
            first = bringer[name]
            raise ConfigurationError(
                f"{who} brings {of} {name!r} twice."
                if first == who
                else f"{first} and {who} both bring {of} {name!r}.",
                remedy="Rename one of the two, or install only one of the two features (HBUS_APPS).",
                field="HBUS_APPS",
            )
        found[name], bringer[name] = thing, who
    return found
