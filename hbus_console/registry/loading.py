"""Finds what the installed features declare. Imports no model and no page: only ``feature.py`` of each app."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hbus_console.installed import apps, load_packages, loading
from hbus_console.registry.declaration import Feature
from hbus_console.registry.unique import unique


@cache
def features() -> tuple[Feature, ...]:
    """The declarations of the installed apps, in their order; an app without a ``feature.py`` has none.

    Raises ``ConfigurationError`` for one of ``HBUS_APPS`` that cannot be loaded, and for two of one name.
    """
    return tuple(unique("a feature", ((app, feature.name, feature) for app, feature in by_app())).values())


def by_app() -> tuple[tuple[str, Feature], ...]:
    """:func:`features`, each with the app that declares it. Raises the same."""
    load_packages()
    found = ((app, feature_file(app)) for app in apps())
    return tuple((app, _feature(app, file)) for app, file in found if file)


def feature_file(app: str) -> str:
    """The ``feature.py`` of an app whose package is loaded; empty: it has none."""
    with loading(app, f"The app {app!r}", app):
        spec = find_spec(f"{app}.feature")
    return (spec.origin or "feature.py") if spec else ""


def _feature(app: str, file: str) -> Feature:
    with loading(app, f"The feature of the app {app!r}", file):
        feature = import_module(f"{app}.feature").FEATURE
        if not isinstance(feature, Feature):
            raise TypeError(f"FEATURE is no Feature but of type {type(feature).__name__}")
        return feature


@cache
def resolve(dotted: str) -> Any:
    """What ``package.module:attribute`` names. Raises ``ImportError`` or ``AttributeError``: a mistake in a feature."""
    module, _, attribute = dotted.partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found
