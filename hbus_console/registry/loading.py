"""Finds what the installed features declare. Imports no model and no page: only ``feature.py`` of each app."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hbus_console.access.acts import VIEW, Act
from hbus_console.installed import apps
from hbus_console.registry.declaration import Feature


@cache
def features() -> tuple[Feature, ...]:
    """The declarations of the installed apps, in their order; an app without a ``feature.py`` has none."""
    return tuple(import_module(f"{app}.feature").FEATURE for app in apps() if find_spec(f"{app}.feature") is not None)


@cache
def resolve(dotted: str) -> Any:
    """What ``package.module:attribute`` names. Raises ``ImportError`` or ``AttributeError``: a mistake in a feature."""
    module, _, attribute = dotted.partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


@cache
def acts() -> dict[str, Act]:
    """Every act by its name, as declared."""
    return {act.name: act for act in (VIEW, *(act for feature in features() for act in feature.acts))}
