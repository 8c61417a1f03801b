"""Finds what the installed features declare. Imports no model and no page: only ``feature.py`` of each app."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from traceback import extract_tb
from typing import Any

from engine.core.error_text import text_of
from engine.core.errors import ConfigurationError
from hbus_console.access.acts import VIEW, Act
from hbus_console.installed import OURS, apps
from hbus_console.registry.declaration import Feature


@cache
def features() -> tuple[Feature, ...]:
    """The declarations of the installed apps, in their order; an app without a ``feature.py`` has none.

    Raises ``ConfigurationError`` for one of ``HBUS_APPS`` that cannot be loaded.
    """
    found = ((app, find_spec(f"{app}.feature")) for app in apps())
    return tuple(_feature(app, spec.origin or "feature.py") for app, spec in found if spec is not None)


def _feature(app: str, file: str) -> Feature:
    try:
        feature = import_module(f"{app}.feature").FEATURE
        if not isinstance(feature, Feature):
            raise TypeError(f"FEATURE is no Feature but of type {type(feature).__name__}")
    except Exception as error:
        if app in OURS:
            raise
        # Whoever wrote it is not who starts hbus: a traceback through the loader tells them nothing.
        raise ConfigurationError(
            f"The feature of the app {app!r} cannot be loaded: {text_of(error)} ({file}{_line(error, file)}).",
            remedy=f"Correct that file, or take {app} out of HBUS_APPS.",
            field="HBUS_APPS",
        ) from error
    return feature


def _line(error: Exception, file: str) -> str:
    """Where in ``file`` it was raised, or what was called from it."""
    numbers = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    number = numbers[-1] if numbers else getattr(error, "lineno", None)
    return f", line {number}" if number else ""


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
