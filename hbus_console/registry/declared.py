"""Whether what the apps of HBUS_APPS declare leads somewhere, and is theirs alone.

Loads all of it: for a start and a check, for no role.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from importlib.util import find_spec
from itertools import chain
from typing import Any

from engine.core.errors import ConfigurationError
from hbus_console.installed import OURS, loading
from hbus_console.registry.declaration import Feature
from hbus_console.registry.loading import by_app, feature_file, features, resolve
from hbus_console.registry.names import DUTIES, HBUS, NAMED, Named
from hbus_console.registry.routes import ROUTES
from hbus_console.registry.unique import unique


def check_declared() -> None:
    """Resolve every path that an app of ``HBUS_APPS`` declares, and compare its names with those of all others.

    Else it fails where it is first used, in some role. Needs Django set up. Raises ``ConfigurationError`` for the first
    path that leads nowhere, and for the first name that two features bring.
    """
    features()
    check_paths()
    check_names()


def check_paths() -> None:
    """The part of :func:`check_declared` that resolves paths."""
    for app, feature in by_app():
        if app in OURS:
            continue
        for name, path in _paths(feature):
            what = f"What the feature of the app {app!r} declares in {name}, {path!r},"
            with loading(app, what, _file(path) or feature_file(app)):
                resolve(path)


def check_names() -> None:
    """The part of :func:`check_declared` that compares names. What ours alone bring is held by a test."""
    theirs = [feature for app, feature in by_app() if app not in OURS]
    for named in CHECKED:
        if any(getattr(feature, named.field) for feature in theirs):
            ours = ((HBUS, name, None) for name in named.ours)
            brought = ((feature.name, name, None) for app, feature in by_app() for name in _names(app, feature, named))
            unique(named.of, chain(ours, brought))


def _names(app: str, feature: Feature, named: Named[Any]) -> list[str]:
    what = f"What the feature of the app {app!r} declares in {named.field}"
    with loading(app, what, feature_file(app)):
        return [name for name, _ in named.brought(feature)]


def _duties(feature: Feature) -> Iterator[tuple[str, object]]:
    """Without those that stand on a store while there is none, as before the first start: the keeper compares all."""
    for maker in feature.duties:
        with suppress(ConfigurationError):
            yield from DUTIES.brought(replace(feature, duties=(maker,)))


CHECKED: tuple[Named[Any], ...] = (
    *(replace(named, brought=_duties) if named is DUTIES else named for named in NAMED),
    *ROUTES,
)


def _paths(declared: object, within: str = "") -> Iterator[tuple[str, str]]:
    """The name of a field, such as ``roles.run``, and a path in it."""
    if not is_dataclass(declared):
        return
    for each in fields(declared):
        value, name = getattr(declared, each.name), f"{within}{each.name}"
        inner: tuple[object, ...] = (value,) if value else ()
        if isinstance(value, Mapping):
            inner = tuple(value.values())
        elif isinstance(value, tuple):
            inner = value
        for one in inner:
            # A declaration says by its type which of its texts are paths.
            if isinstance(one, str) and ("Dotted" in str(each.type) or "Module" in str(each.type)):
                yield name, one
            else:
                yield from _paths(one, f"{name}.")


def _file(path: str) -> str:
    """Of the module that ``path`` names; empty when there is none."""
    # Its package is foreign code, and says itself what is wrong with it when it is loaded.
    with suppress(Exception, SystemExit):
        spec = find_spec(path.partition(":")[0])
        return (spec and spec.origin) or ""
    return ""
